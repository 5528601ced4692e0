// Package store is where allocations are kept, and who decides when two want
// the same value: an implementation must make a value have one owner at most by
// a constraint, not by care.
//
// A holding is a value and its owner; the owner's claims say which of its slots
// have the value. A holding without claims is at rest, and belongs to nobody
// although it still remembers the last owner.
//
// The interface takes lists of holdings that come true together or not at all,
// because that is what a group commit can do in one transaction. What they
// should be is for the caller, which holds the same state in memory; the store
// is the arbiter when that was not up to date. A holding is stored as a whole,
// with its claims, instead of operations on claims one by one: what a batch does
// to a value is one write of one row, however many steps it took.
package store

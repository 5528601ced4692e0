// Package store defines the storage of allocations. The store decides if two owners request the
// same value: an implementation must guarantee by a constraint, not only by its logic, that a value
// has at most one owner.
//
// A allocation is a value with its owner. The claims of an allocation are the slots of the owner
// that have the value. A allocation without claims is at rest: it has no owner, although the last
// owner is still stored.
//
// Apply takes a list of allocations that are stored together or not at all, because a group commit
// can do that in one transaction. The caller decides their content from the same state in memory.
// The store refuses the list if that state was outdated. A allocation is stored as a whole, with
// its claims, and not as operations on single claims, so that a batch writes one row per value,
// however many steps it took.
package store

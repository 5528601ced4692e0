// Package pool picks values from a range: addresses of a CIDR, or ports.
//
// A [Space] is a range as an ordered set of values by index; a [Pool] is a
// space and which of its values are taken. The one invariant: a value that is
// in use is never picked, and a pool is full exactly when all its values are in
// use.
//
// The taken values are a sparse tree of 64-bit words with a "full" bit per
// branch, so that the next free value is found in a handful of steps at any
// fill, and a /64 of IPv6 costs what is used of it. A bitmap would not hold a
// /64, and a sorted list of free ranges costs a search and a shift per pick.
//
// A pick begins where the last one ended, for a few hundred picks from a random
// start, and not at a random place each time: neighbours share a page of the
// store, of which a batch then writes few. What keeps a value from coming back
// too soon is its rest, not chance.
//
// Picking is memory only: who really has a value is for the store's constraints
// to say. Nothing here reads a clock; callers pass the time.
package pool

// Package pool picks values from a range: addresses of a CIDR, or ports.
//
// A [Space] is a range as an ordered set of values by index. A [Pool] is a space with the set of
// its values that are taken. The invariant is that a value in use is never picked, and that a pool
// is full exactly when all its values are in use, except those that only explicit requests get.
//
// The taken values are stored in a sparse tree of 64-bit words with a "full" bit per branch. The
// next free value is found in a few steps at any fill level, and a /64 of IPv6 takes memory only
// for the values in use. A bitmap could not hold a /64, and a sorted list of free ranges would cost
// a search and a shift per pick.
//
// A pick begins where the last one ended, for a few hundred picks from a random start. Neighbouring
// values share a page of the store, so a batch writes fewer pages than with a random place for each
// pick. Its rest keeps a value from being reused too soon; a random place would do so only by chance.
//
// A range of ports may have one value for each protocol. The values of one protocol are neighbours in
// the order of the range, so that a pick for one protocol is as cheap as in a range without protocols.
// With the protocols of a number as neighbours, a pick for UDP would pass every number that is in use
// for UDP and free for TCP.
//
// The package works in memory only: the constraints of the store decide which owner has a value. It
// does not read a clock; callers pass the time.
package pool

// Package allocator is the daemon that hands out virtual IPs, ports of nodes
// and addresses of pods and load balancers.
//
// It serves AllocatorService from pools that are rows in its store, and its
// verifier follows the registry to free what was left behind. The invariant: a
// value has one owner at most, which a constraint of the store guarantees.
//
// It is a daemon of its own, and not a part of the registry, so that another
// allocator can take its place: the contract is in the proto and, as tests, in
// the package allocatortest.
package allocator

// Package allocator is the daemon that allocates virtual IPs, node ports, and addresses of pods and
// load balancers.
//
// It serves AllocatorService from pools that are rows in its store. Its verifier follows the
// registry and frees values that no longer have an owner. The invariant is that a value has at most
// one owner, which a constraint of the store guarantees.
//
// It is a separate daemon, and not a part of the registry, so that another allocator can replace
// it. The contract is the proto file, and package allocatortest tests it.
package allocator

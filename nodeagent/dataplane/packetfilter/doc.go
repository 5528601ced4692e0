// Package packetfilter is the packet filter around a balancer: it drops packets of clients that a
// frontend does not admit, refuses packets to virtual addresses without a frontend, masquerades, and
// sends external clients to stand-ins.
//
// The rules are fixed. Sets and maps hold their parameters, and a data plane changes only their
// elements. A change is one transaction, so packets see the rules before it or after it. The
// alternative, rules per frontend, costs a rebuild of a chain for each change, and each packet passes
// all rules.
//
// Invariant: after Commit the kernel has the elements that were added and not removed, except those
// in a RefusedError. Drift describes all other differences.
//
// The vocabulary of the elements (Element, Set, Class, Change, Drop) depends on no library for
// nftables, because planes and simulations use it without a kernel. Filter is the implementation.
package packetfilter

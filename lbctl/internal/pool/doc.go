// Package pool has the built-in load-balancer providers: they take the addresses of services from the
// allocator's pools of load-balancer addresses. One provider is for addresses at which nodes forward, the other
// for addresses at which edges listen. Both are part of lbctl, so nothing has to be set up for them.
//
// Edges do not choose addresses themselves, because addresses outlive every edge, and because edges would need a
// leader for the choice. The providers differ in the fields of [Kind]. They have the same pools, rules and shares
// of addresses. Services of different classes do not share an address, because an address has one mode.
//
// The owner of an address in the allocator is the service, or the share of services with one sharing
// key. Claims are idempotent by owner and slot, so no restart and no repeated call changes an address,
// and the provider stores nothing. An address is held until the service's status has it. Then it is confirmed,
// and the address that it replaces is released. The invariant is that an address in the status of a service is
// allocated to it, and that a deleted service leaves nothing behind. Delete releases all slots. If lbctl ends
// between two calls, the allocator's verifier frees the address once no service has it and no service with
// lbctl's finalizer can get it.
//
// The pool of an address depends on the service's annotation, and on rules in lbctl's configuration about manual
// pools and namespaces. The rules are not stored in the pools, because only lbctl applies them, and their
// operator configures lbctl anyway.
package pool

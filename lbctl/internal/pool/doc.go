// Package pool has the built-in load-balancer providers: they take the addresses of services from the
// allocator's pools of load-balancer addresses. There is one for addresses at which nodes forward, and
// one for addresses at which edges listen. Both come by themselves, so nothing else has to be set up.
//
// An edge gives out no address itself, because addresses outlive every edge, and because edges that gave
// them out would need a leader. The providers differ in what [Kind] has, and share pools, rules and the
// shares of addresses; services of the two do not share an address, because it has one mode.
//
// The owner of an address in the allocator is the service, or the share of services with one sharing
// key. Claims are idempotent by owner and slot, so no restart and no repeated call changes an address,
// and the provider needs no memory of its own. An address is held until the service's status has it,
// and then confirmed; what it replaces is released only then. The invariant is that an address in the
// status of a service is allocated to it, and that a deleted service leaves nothing behind: Delete
// releases all slots, whatever happened before, and what is lost between two calls the allocator's
// verifier frees once no service has it and none with lbctl's finalizer can get it.
//
// Which pool an address comes from depends on the annotation, and on rules in lbctl's configuration
// about manual pools and namespaces. The rules are not stored in the pools, because only lbctl applies
// them, and the operator who writes them configures lbctl anyway.
package pool

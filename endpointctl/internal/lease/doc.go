// Package lease elects one leader among replicas by a Lease in the registry.
//
// The invariant is that two replicas never write successfully at the same time. A leader that
// cannot renew its lease gives up, by its own clock, before other replicas may take over. If its
// clock or scheduler fails, its writes still carry the epoch of its lease ([Fence]), and the
// registry refuses them once another replica has taken over.
//
// A replica decides by the changes of a lease whether its holder is alive, never by the times in
// the lease, because the clocks of machines need not agree.
package lease

// Package controller has the control loop of load balancers: it has each service of type LoadBalancer
// made, kept and deleted by the provider of its class.
//
// Each service is synced by itself, from what the registry has. The invariant is that a provider is
// asked for nothing before the service has lbctl's finalizer, and that the finalizer goes only after
// the provider has deleted the load balancer. So a provider or a leader may die at any moment: the
// next sync repeats the call, which is idempotent by the service's uid, and the service cannot
// disappear in between.
//
// The finalizer is written together with an annotation that names the provider, because a service that
// is no longer of type LoadBalancer has lost its class. Without the annotation, which its owner may
// have removed, every provider is asked to delete the load balancer. Both exist only for services that
// a provider serves.
//
// A provider is called only if something has changed that it may depend on, or the last call has
// failed. Otherwise every write of lbctl's own, such as the node that announces an address, would lead
// to a call.
//
// What a service waits for is told in three places: by the condition portolan.dev/LoadBalancer, which
// the command line shows, by an Event whenever that changes, and by metrics. The condition is the only
// one that lasts. The alternative, a method of lbctl that explains a service, would need lbctl to be
// asked, and would have no answer while no replica leads.
//
// Settings of a service that its class does not honour are part of the condition's message, and an Event
// of their own whenever they change. A new leader finds in the condition what was recorded already.
//
// A service that failed is tried again after a pause that doubles. A service that waits for an address
// is also tried when the pools have changed, which one call for all such services finds out every few
// seconds, and when a service gives back its load balancer. The alternative, a stream of releases from
// the allocator, saves a call that only happens while something waits.
package controller

// Package controller has the control loop of load balancers: it calls the provider of a service's class to
// make, keep and delete the service's load balancer.
//
// Each service is synced by itself, from its objects in the registry. The invariant is that a provider is not
// called before the service has lbctl's finalizer, and that the finalizer is removed only after the provider
// has deleted the load balancer. So a provider or a leader may die at any moment: the
// next sync repeats the call, which is idempotent by the service's uid, and the service cannot
// disappear in between.
//
// The finalizer is written together with an annotation that names the provider, because a service that
// is no longer of type LoadBalancer has lost its class. Without the annotation, which its owner may
// have removed, every provider is asked to delete the load balancer. Both exist only for services that
// a provider serves.
//
// A provider is called only if an input of the last call has changed, or the last call has failed. Otherwise
// every write of lbctl itself, such as the node that announces an address, would lead to a call.
//
// The reason why a service waits is in three places: in the condition portolan.dev/LoadBalancer, which the
// command line shows, in an Event for each new reason, and in metrics. Only the condition lasts. The
// alternative, a method of lbctl that explains a service, would have no answer while no replica leads.
//
// A provider that does not answer is waited for. A load balancer that was made before stays as its condition says,
// because nothing is known to be wrong with it, and the state of the provider is not the state of the service. One
// service of each class is tried every few seconds, and when the provider answers, the others are tried.
//
// The status of a service loses its addresses before the provider is called to delete the load balancer, because
// another service may get the addresses right after that. A crash in between leaves an empty status and the
// finalizer, so the next leader deletes the load balancer.
//
// Settings of a service that its class does not honour are part of the condition's message. An Event is
// recorded whenever they change. A new leader reads in the condition which settings have an Event already.
//
// A service that failed is tried again after a pause that doubles. A service that waits for an address
// is also tried when the pools have changed and when a service gives back its load balancer. One call every few
// seconds, for all waiting services, finds out whether the pools have changed. The alternative, a stream of releases from
// the allocator, saves a call that only happens while something waits.
package controller

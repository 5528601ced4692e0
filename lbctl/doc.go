// Package lbctl is the daemon that controls the load balancers of services of type LoadBalancer. It calls
// providers, built-in or in other programs, and writes the addresses of load balancers into the services.
//
// It is a daemon of its own and no part of endpointctl, for two reasons. It calls other programs, which may
// hang. And it may write the status and the finalizer of services and claim load-balancer addresses, which
// endpointctl does not need: a holder of lbctl's certificate can give load-balancer services wrong addresses,
// and nothing else.
//
// One of several replicas leads by a Lease. The Lease's epoch fences the leader's writes. All state that must
// survive a leader is in the services and in the allocator. The built-in providers run in the process
// behind the same contract as all others ([portolan.dev/lbctl/providertest] tests it), so that the
// control loop has one path.
package lbctl

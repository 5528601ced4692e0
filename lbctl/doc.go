// Package lbctl is the daemon that has load balancers made for services of type LoadBalancer, by the
// built-in providers or those of other programs, and writes their addresses into the services.
//
// It is a daemon of its own and no part of endpointctl, for two reasons. It calls programs of others,
// which may hang. And it may write the status and the finalizer of services and take load-balancer
// addresses, which endpointctl has no use for: whoever holds lbctl's certificate can give load-balancer
// services wrong addresses, and nothing else.
//
// One of several replicas leads by a Lease, whose epoch fences its writes. Everything that has to
// survive a leader is in the services and in the allocator. The built-in providers run in the process
// behind the same contract as all others ([portolan.dev/lbctl/providertest] tests it), so that the
// control loop has one path.
package lbctl

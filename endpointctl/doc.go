// Package endpointctl is the daemon that turns selectors into EndpointSlices, and the health of
// nodes and pods into readiness.
//
// One of several replicas leads by a Lease. The Lease's epoch fences the leader's writes. The other
// replicas follow the registry and take over if the leader fails. The invariant is that all writes
// depend on the objects in the registry only, and not on anything that a replica remembers.
package endpointctl

// Package endpointctl is the daemon that turns selectors into EndpointSlices,
// and the health of nodes and pods into readiness.
//
// Of several replicas one leads, by a Lease whose epoch fences its writes; the
// others follow and take over. The invariant: what it writes depends on what the
// registry has, and on nothing that it remembers.
package endpointctl

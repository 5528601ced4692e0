// Package balancer describes the load balancer of a service of type LoadBalancer: its provider and
// addresses, the pools that they come from, the nodes that announce them, and what it waits for.
//
// Nothing is stored for it. Providers and nodes are in the service, since lbctl writes them there; the
// time since which a node announces is that of the condition. A pool follows from the address, because
// pools do not overlap, so one list of pools describes any number of services.
package balancer

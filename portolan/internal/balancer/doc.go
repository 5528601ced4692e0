// Package balancer describes the load balancer of a service of type LoadBalancer: its provider and
// addresses, the pools that they come from, the nodes that announce them, and the reason why it
// is not complete.
//
// Everything is in the service already, where lbctl writes it. The time since which a node announces is
// the transition time of the condition. The pool follows from the address, because pools do not overlap,
// so one list of pools describes any number of services.
package balancer

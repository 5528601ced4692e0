// Package bgp tests the advertising of load-balancer addresses by BGP: three nodes with an agent each
// and a router on one network, and a client behind the router. The router is BIRD, a program of Debian,
// and forwards by the routes that BIRD writes into its kernel.
//
// The tests watch the kernel's routes of the router, so they see what the client's packets follow. The
// promises: the router has a route through exactly the nodes that forward the address, it has them
// without interruption while an agent restarts, and it drops those through a dead node within the hold
// time.
package bgp

// Package bgp tests the advertising of load-balancer addresses by BGP: three nodes with an agent each
// and a router on one network, and a client behind the router. The router is BIRD, a program of Debian,
// and forwards by the routes that BIRD writes into its kernel.
//
// The tests watch the routes in the router's kernel, which the client's packets follow. The promises: the
// router has a route through exactly the nodes that forward the address, it keeps the routes while an agent
// restarts, and it drops the routes through a dead node within the hold time.
package bgp

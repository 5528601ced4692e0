// Package localproxy lets a proxy on the node, the edge, serve load-balancer addresses.
//
// The proxy has a stream to the agent (LocalProxyService). Its messages list the addresses that the proxy
// serves or is to serve, and the addresses at which it listens. Proxies makes the addresses local by routes in the kernel,
// and tells the announcing parts of the agent which of them are served.
//
// The invariants: a proxy gets only addresses that the view gives to services of the class
// portolan.dev/edge. An address counts as served only while the stream of a proxy that listens at it is
// open, and it is local. The kernel closes the stream when the proxy dies, so the agent stops
// announcing at once.
//
// A route is removed when the proxy no longer lists the address, or when no service has it any more. When
// the proxy ends, its routes stay for some seconds: the kernel then refuses the packets of the proxy's
// connections, and a restarted proxy finds the addresses. Routes also stay while the agent does not run,
// because the proxy goes on serving. A restarted agent finds the routes and waits for the proxy to connect,
// and the node keeps its addresses in this time (Awaits).
//
// The alternative, a proxy that makes its addresses local and announces them by itself, would need the
// rights of a network administrator, and a second stream to lbctl and second sessions with routers for
// the same node.
package localproxy

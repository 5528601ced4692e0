// Package bgp advertises the load-balancer addresses that the node forwards to routers, by BGP.
//
// Table decides which addresses follow from the frontends that the data plane has in force. Advertiser
// makes a machine.Speaker follow it while the node may take traffic of load balancers. No lbctl is
// needed: every node decides for itself, and routers spread traffic over all nodes that advertise an
// address (ECMP).
//
// The invariant: an address is advertised only while the node forwards it. A frontend counts from the
// moment at which the data plane has it as planned. Addresses with ipMode Proxy have no frontends: they
// count while a proxy on the node serves them (nodeagent/internal/localproxy). The set of addresses follows
// from the same plan as the forwarding, so policies and the choice of endpoints are decided once. The cost of
// a change is proportional to the frontends that it touches. The alternative, to read services and slices
// again as lbctl does for all nodes, would make the same decisions a second time, and could differ from the
// plan.
//
// A frontend that was in force stays advertised if a later change of it fails, because the data plane
// then forwards as before, and a fault that all nodes share would otherwise take the address away
// everywhere. An endpoint that terminates keeps the address on its node as long as the node sends it
// traffic: a route that goes moves connections too, while a health check only moves new ones.
//
// The sessions begin after the first complete sync, so that a router that has kept the routes over a restart
// of the agent (graceful restart) goes on keeping them. A node that dies sends no message: its routes go when
// the hold time is over, or earlier with BFD. Graceful restart and BFD contradict each other, because BFD would
// remove the routes while the agent restarts. So the configuration has to choose.
package bgp

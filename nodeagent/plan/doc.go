// Package plan decides what a node forwards: from a service, its EndpointSlices
// and facts about the node to virtual servers (Build), from the virtual servers
// of all services to what changes at which key (Table), and from two states to
// the ordered steps between them (Diff).
//
// Everything here is pure: no clock, no sockets, no order of maps. The same
// input gives the same plan on every node that has the same facts, and
//
//	Apply(a, Diff(a, b)) == b
//
// for all states a and b. Explanations come from the very code that chooses, so
// they cannot tell another story than the traffic.
//
// The unit is one service: a change costs the services it touches. The
// alternative, recomputing the world for every change and letting a cache find
// out what differs, is what makes agents slow at ten thousand services.
package plan

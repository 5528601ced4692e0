// Package announce tests the announcing of load-balancer addresses on a LAN: a bridge with three
// nodes, each with a node agent, and a client that asks for the addresses all the time. The test
// serves the agents as lbctl does, with package lbctl/announce.
//
// All packets of the nodes on the bridge are captured by one socket, so the order of the capture is
// the order on the bridge. The promise is about this order: no node answers for an address after another
// node has begun to answer for it.
package announce

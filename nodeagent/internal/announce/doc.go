// Package announce makes the node the one that answers for load-balancer addresses on its networks,
// while lbctl allows it.
//
// Client has the stream to the leading lbctl. Holder holds the rights that its answers give, and
// Responder answers the neighbours. Announcer joins them.
//
// The invariant: the node sends no answer and no announcement for an address unless it has the right
// at that moment, by its own clock. The right ends a fixed time after the node sent the message that
// was answered, so a node that is cut off stops by itself. lbctl gives the address to another node
// later than that. The clock includes the time in which the machine was suspended; Go's does not on
// Linux.
//
// An answer may also name the previous node of an address (hand-over). The kernel sends packets of
// connections that it does not know to that node before the agent announces the address, and no longer
// by the time the agent says that it does not announce it. So a packet never finds two nodes that send
// to each other, unless one of them has no agent, and then its time to live ends it.
//
// A node without a right still forwards. So a neighbour that has learned the node's hardware address
// keeps its connections while lbctl is away, until it asks again.
//
// The alternative, a node that keeps its addresses while it cannot reach lbctl, would be better when
// lbctl is away and worse when the node is cut off, and the node cannot tell one from the other.
package announce

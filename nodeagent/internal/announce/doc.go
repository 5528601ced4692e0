// Package announce answers requests for load-balancer addresses on the node's networks (ARP and neighbour
// discovery), while lbctl allows it.
//
// Client has the stream to the leading lbctl. Holder holds the rights that its answers give, and
// Responder answers the neighbours. Announcer joins them.
//
// The invariant: the node sends no answer and no announcement for an address unless it has the right
// at that moment, by its own clock. The right ends a fixed time after the node sent the message that
// was answered, so a node that is cut off stops by itself. lbctl gives the address to another node
// later than that. The clock includes the time for which the machine was suspended, which Go's clock does
// not include on Linux.
//
// An answer may also name the previous node of an address (hand-over). The kernel then sends packets of
// connections that it does not know to that node. The hand-over begins before the agent announces the
// address, and ends before the agent tells lbctl that it no longer announces it. So two nodes never send a
// packet to each other, unless one of them has no agent. Then the packet's time to live ends.
//
// A node without a right still forwards. So a neighbour that has learned the node's hardware address
// keeps its connections while lbctl is away, until it asks again.
//
// The alternative is that a node keeps its addresses while it cannot reach lbctl. That would be better if
// lbctl is unavailable and worse if the node is cut off, and the node cannot distinguish the two.
package announce

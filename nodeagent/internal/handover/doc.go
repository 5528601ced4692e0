// Package handover sends packets of connections that another node has begun to that node, if the node
// lives and its load-balancer address has moved here.
//
// A node that takes an address over knows nothing of the connections through the previous one. While
// that node lives, its kernel still has them. So packets to a moved address that belong to no
// connection here, and that open none, go to the previous node unchanged, in a frame to its hardware
// address. It forwards them as before, and answers the client itself.
//
// The rules are a table of nftables of their own, in which a map has the previous node of each
// address. Its elements end by themselves, so that a hand-over has an end even if the agent does not
// run. Connection tracking decides which connections are known. A segment that opens no connection
// and belongs to none is new to it (net.netfilter.nf_conntrack_tcp_loose, the kernel's default), or
// invalid if it closes one. It stays so with each further segment, because the table drops the
// original, and only a packet that passes makes an entry.
//
// The invariant: a packet of a connection that was opened through this node, or that opens one, is
// never sent on. A packet is sent on by at most as many nodes as its time to live allows, so that nodes
// whose tables disagree for a moment make no loop.
//
// The alternative, a mark and a rule of routing, would have to come before the kernel's table of local
// addresses, because virtual addresses are local: that table's own rule would have to move. The other
// one, a copy of the connections' state on the next node, would need the state of IPVS, of connection
// tracking and of the translated source ports, which another node may not use.
package handover

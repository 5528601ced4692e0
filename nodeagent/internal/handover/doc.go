// Package handover sends packets of connections that were opened through another node to that node, after
// its load-balancer address has moved here and while it still runs.
//
// A node that takes over an address does not know the connections through the previous node. While
// the previous node runs, its kernel still has them. So packets to a moved address that neither belong to a
// connection here nor open one go to the previous node unchanged, in a frame to its hardware address. The
// previous node forwards them as before, and answers the client itself.
//
// The rules are a table of nftables of their own, in which a map has the previous node of each
// address. Its elements end by themselves, so that a hand-over has an end even if the agent does not
// run. Connection tracking decides which connections are known. A segment that opens no connection
// and belongs to none is new to it (net.netfilter.nf_conntrack_tcp_loose, the kernel's default), or
// invalid if it closes one. It stays so with each further segment, because the table drops the
// original, and only a packet that passes makes an entry.
//
// The invariant: a packet of a connection that was opened through this node, or that opens one, is
// never sent on. The time to live limits how often a packet is sent on, so that two nodes with tables that
// disagree for a moment make no endless loop.
//
// One alternative was a mark and a routing rule. The rule would have to come before the kernel's rule for the
// table of local addresses, because virtual addresses are local, so the kernel's own rule would have to move.
// Another was a copy of the connections' state on the next node. It would need the state of IPVS, of
// connection tracking and of the translated source ports, which another node may not use.
package handover

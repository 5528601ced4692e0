package announce

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// HandOver tells the node that has an address now to which node it sends the packets of connections
// that it does not know.
type HandOver struct {
	Address netip.Addr
	Node    string        // the previous node
	Via     netip.Addr    // address of the previous node on a network of both nodes
	Left    time.Duration // until the hand-over ends
}

// handOver is the hand-over of an address to its owner, which may not have the right to announce it yet.
type handOver struct {
	from  string // the previous node; empty: none
	via   netip.Addr
	until time.Time
}

// handOvers returns the hand-overs of a node's addresses. It includes addresses that the node may not announce
// yet, because a new leader would otherwise end their hand-overs until its term has settled. A previous node
// that has died or is cut off gets no packets. If its agent is expected back, it gets packets, because its
// kernel forwards. For an address that edges serve, a previous node gets packets only while the address is
// local to it: otherwise its kernel would send them on, possibly back.
func (a *Assigner) handOvers(now time.Time, n *node) []HandOver {
	if !n.state.Stays {
		return nil
	}
	var all []HandOver
	for _, addr := range slices.SortedFunc(maps.Keys(n.owned), netip.Addr.Compare) {
		known := n.owned[addr]
		h := &known.handOver
		if h.from == "" || h.from == n.name || !now.Before(h.until) {
			continue
		}
		if previous := a.nodes[h.from]; previous != nil {
			h.via = previous.reachedBy(n, addr)
			if !previous.live(now, a.opts.guard()) && !previous.restarts(now) || previous.handsOver(addr) || !known.keptBy(previous) {
				continue
			}
		} else if !a.awaits(now) {
			continue
		}
		if h.via.IsValid() {
			all = append(all, HandOver{Address: addr, Node: h.from, Via: h.via, Left: h.until.Sub(now)})
		}
	}
	return all
}

// handsOver reports whether the node, by its last message, sends packets for an address on to another node.
// Two nodes that send to each other would be a loop.
func (n *node) handsOver(addr netip.Addr) bool {
	return slices.ContainsFunc(n.handOvers, func(h HandOver) bool { return h.Address == addr })
}

// awaits reports whether nodes that this leader has not heard of may still connect to it.
func (a *Assigner) awaits(now time.Time) bool {
	return now.Before(a.begun.Add(a.opts.guard() + a.opts.Restart))
}

// reachedBy returns an address of the node that another node reaches without a router, because a
// router would send packets for the virtual address back. It prefers the network of the virtual
// address, since packets of its clients come from there. If the nodes share no network, or the node does
// not forward without its agent, the result is not valid.
func (n *node) reachedBy(other *node, virtual netip.Addr) (via netip.Addr) {
	if !n.state.Stays {
		return netip.Addr{}
	}
	for _, own := range n.state.Subnets {
		shared := slices.ContainsFunc(other.state.Subnets, func(p netip.Prefix) bool {
			return p.Masked() == own.Masked() && p.Addr() != own.Addr()
		})
		// Agents of earlier versions report the first address of the network instead of their own.
		if !shared || own.Addr().Is6() != virtual.Is6() || own.Addr() == own.Masked().Addr() {
			continue
		}
		if !via.IsValid() || own.Contains(virtual) {
			via = own.Addr()
		}
	}
	return via
}

// begin prepares the hand-over to the node n, which becomes the owner. The address's connections are on the
// node that has announced it last.
func (known *address) begin(now time.Time, n *node, longest time.Duration) {
	if known.announcer != "" && known.announcer != n.name {
		known.handOver = handOver{from: known.announcer, until: now.Add(longest)}
	}
}

// acceptHandOver takes over the hand-over that an earlier leader has given to a node.
func (a *Assigner) acceptHandOver(now time.Time, known *address, n *node) {
	known.announcer = n.name
	for _, h := range n.handOvers {
		if h.Address == known.addr {
			known.handOver = handOver{from: h.Node, via: h.Via, until: now.Add(min(h.Left, a.opts.HandOver))}
		}
	}
}

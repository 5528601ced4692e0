package announce

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"portolan.dev/services/object"
)

// Wanted is an address that a node is to announce.
type Wanted struct {
	Address netip.Addr
	// Services are the services with the address, ordered.
	Services []object.Name
	// Nodes are the names of the nodes that may announce the address by the services' policy and by
	// the Node objects. Several addresses may share the map. It does not change.
	Nodes map[string]bool
	// Policy is the reason why other nodes may not announce it, such as "no ready endpoint of shop/web".
	Policy string
	// Proxied is set if edges serve the address. Then a node may announce it only while the node's agent
	// reports it as served.
	Proxied bool
}

// address is an address with its owner.
type address struct {
	addr      netip.Addr
	wanted    *Wanted // nil: no service has it any more
	owner     *node   // the node that may announce it, once the others have stopped
	lastOwner string
	announcer string // the node that has announced it last; empty: none
	// formerUntil is set if the owner has the address because it was the last owner under an earlier
	// leader. It is the time at which the owner's right ended.
	formerUntil time.Time
	handOver    handOver  // to the owner
	since       time.Time // when the owner began to announce it; zero: it does not announce it
	triedAt     uint64    // generation in which no eligible node was found; 0: none
	// holds are the rights that answers have given.
	holds map[holder]hold
}

func newAddress(addr netip.Addr, wanted *Wanted) *address {
	return &address{addr: addr, wanted: wanted, holds: map[holder]hold{}}
}

// holder is a process of a node's agent.
type holder struct{ node, instance string }

// hold is a right to announce an address.
type hold struct {
	until  time.Time // the right has ended by then, by any node's clock
	stream uint64    // stream of the last answer that gave the right
	answer uint64    // sequence of that answer
}

// heldByOther reports whether another node may still announce the address.
func (known *address) heldByOther(now time.Time, node string) bool {
	for by, h := range known.holds {
		if by.node != node && now.Before(h.until) {
			return true
		}
	}
	return false
}

// expire forgets the rights that have ended.
func (known *address) expire(now time.Time) {
	maps.DeleteFunc(known.holds, func(_ holder, h hold) bool { return !now.Before(h.until) })
}

// choose returns the best of the nodes that are eligible for an address, or nil if there is none.
func (a *Assigner) choose(now time.Time, known *address) *node {
	var best *node
	var bestScore uint64
	for name := range known.wanted.Nodes {
		n := a.nodes[name]
		if n == nil || a.refusal(now, known, n) != "" {
			continue
		}
		// If two scores are equal, the names decide and not the order of the map.
		if score := score(known.addr, name); best == nil || score > bestScore || score == bestScore && name < best.name {
			best, bestScore = n, score
		}
	}
	return best
}

// score is the weight of a node in the rendezvous for an address. It is the same in every process.
func score(addr netip.Addr, node string) uint64 {
	b := addr.As16()
	return xxhash.Sum64(append(b[:], node...))
}

// refusal returns the reason why an address may not move to a node, or "" if it may.
func (a *Assigner) refusal(now time.Time, known *address, n *node) string {
	switch {
	case !n.connected || !n.live(now, a.opts.guard()):
		return "not connected"
	case !known.wanted.Nodes[n.name]:
		return cmp.Or(known.wanted.Policy, "not among the nodes for it")
	case n.state.Draining:
		return "draining"
	case n.state.Restarting:
		return "restarting"
	case !n.state.Ready:
		return "not ready"
	case !known.servedBy(n):
		return "no edge on it serves the address"
	case !a.opts.AnySubnet && !n.state.covers(known.addr):
		return "no interface for announcing in a subnet with the address"
	}
	return ""
}

// servedBy reports whether a node can serve the address: an edge on it serves the address, or no edge is
// needed.
func (known *address) servedBy(n *node) bool {
	return known.wanted == nil || !known.wanted.Proxied || has(n.state.Served, known.addr)
}

// keptBy reports whether a node may have connections to the address.
func (known *address) keptBy(n *node) bool {
	return known.wanted == nil || !known.wanted.Proxied || has(n.state.Kept, known.addr)
}

func has(ordered []netip.Addr, addr netip.Addr) bool {
	_, found := slices.BinarySearchFunc(ordered, addr, netip.Addr.Compare)
	return found
}

// keeps reports whether a node keeps an address that it owns. If its agent restarts or is not ready, the node
// keeps the address for some time, because its kernel forwards in that time. An edge goes on serving while
// the agent restarts, and has some time to connect to it afterwards.
func (a *Assigner) keeps(now time.Time, known *address, n *node) bool {
	return known.wanted != nil && known.wanted.Nodes[n.name] &&
		!n.state.Draining &&
		(known.servedBy(n) || n.state.AwaitsProxy && known.keptBy(n)) &&
		(n.live(now, a.opts.guard()) || n.restarts(now)) &&
		(n.state.Ready || now.Before(n.unreadyAt.Add(a.opts.Grace))) &&
		(a.opts.AnySubnet || n.state.covers(known.addr))
}

func (s State) covers(addr netip.Addr) bool {
	return slices.ContainsFunc(s.Subnets, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Reason is the state of an address.
type Reason string

// The reasons.
const (
	// Announced: the node has said that it announces the address.
	Announced Reason = "Announced"
	// Waiting: a node is chosen, but the rights of other nodes have not ended yet, or the node has not said
	// yet that it announces the address.
	Waiting Reason = "Waiting"
	// NoEligibleNode: no node may announce the address.
	NoEligibleNode Reason = "NoEligibleNode"
	// NoEdge: an edge must serve the address, and no edge does.
	NoEdge Reason = "NoEdge"
)

// Status is the state of an address.
type Status struct {
	Address  netip.Addr
	Services []object.Name
	Reason   Reason
	// Node is the node that announces the address or is chosen for it; empty: none.
	Node string
	// Since is the time at which the node began to announce the address; zero: it does not announce it.
	Since time.Time
	// Message describes the state, with the reasons of the nodes if none is eligible.
	Message string
}

// reasonsNamed is the number of nodes that the message of an address without a node names.
const reasonsNamed = 5

// Statuses returns the states of all wanted addresses, ordered by address.
func (a *Assigner) Statuses(now time.Time) []Status {
	var all []Status
	for addr, known := range a.addresses {
		if known.wanted == nil {
			continue
		}
		s := Status{Address: addr, Services: known.wanted.Services, Since: known.since}
		switch {
		case known.owner == nil && !a.settled(now):
			s.Reason, s.Message = Waiting, "the rights that an earlier lbctl may have given have not ended yet"
		case known.owner == nil && !a.hasEdge(known):
			s.Reason, s.Message = NoEdge, noEdge
			if len(a.nodes) == 0 {
				s.Message += "; " + noAgent
			}
		case known.owner == nil:
			s.Reason, s.Message = NoEligibleNode, a.describeRefusals(now, known)
		case known.since.IsZero():
			s.Reason, s.Node = Waiting, known.owner.name
			s.Message = fmt.Sprintf("node %s has not said yet that it announces the address", s.Node)
			if !known.servedBy(known.owner) {
				s.Message = fmt.Sprintf("the agent of node %s was restarted, and waits for the edge on the node to connect: nobody answers, and neighbours that know the node still reach the address", s.Node)
			}
			if known.owner.restarts(now) {
				s.Message = fmt.Sprintf("the agent of node %s restarts: nobody answers, and neighbours that know the node still reach the address", s.Node)
			}
		default:
			s.Reason, s.Node = Announced, known.owner.name
			s.Message = fmt.Sprintf("node %s announces the address", s.Node)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Status) int { return a.Address.Compare(b.Address) })
	return all
}

// The messages about missing edges and agents.
const (
	noEdge  = "no edge serves the address: run edge on a node, with -agent set to the address of the node's agent"
	noAgent = "no node agent is connected: set -announce-interfaces and -lbctl of the agents"
)

// hasEdge reports whether an edge on some node serves an address, or no edge is needed.
func (a *Assigner) hasEdge(known *address) bool {
	if !known.wanted.Proxied {
		return true
	}
	for _, n := range a.nodes {
		if known.servedBy(n) {
			return true
		}
	}
	return false
}

// describeRefusals returns the reasons why no node may announce an address.
func (a *Assigner) describeRefusals(now time.Time, known *address) string {
	if len(a.nodes) == 0 {
		return noAgent
	}
	names := slices.Sorted(maps.Keys(a.nodes))
	var reasons []string
	for _, name := range names[:min(len(names), reasonsNamed)] {
		reasons = append(reasons, name+": "+a.refusal(now, known, a.nodes[name]))
	}
	text := "no node may announce the address: " + strings.Join(reasons, "; ")
	if more := len(names) - reasonsNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

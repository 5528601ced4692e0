package announce

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/nodeagent/machine"
)

// handOver is a hand-over that an answer of lbctl names.
type handOver struct {
	machine.HandOver
	node string // the previous node
}

// handOversOf returns the hand-overs in an answer, ordered. Hand-overs that cannot be parsed are left out.
func handOversOf(answer *loadbalancerv1.AnnounceResponse) []handOver {
	var all []handOver
	for _, h := range answer.GetHandOvers() {
		addr, err := netip.ParseAddr(h.GetAddress())
		via, viaErr := netip.ParseAddr(h.GetVia())
		if err != nil || viaErr != nil || addr.Is6() != via.Is6() {
			continue
		}
		all = append(all, handOver{machine.HandOver{Address: addr, Via: via, Left: h.GetLeft().AsDuration()}, h.GetNode()})
	}
	slices.SortFunc(all, func(a, b handOver) int { return a.Address.Compare(b.Address) })
	return slices.CompactFunc(all, func(a, b handOver) bool { return a.Address == b.Address })
}

// followHandOvers keeps the hand-overs of an answer for the messages after it.
func (h *Holder) followHandOvers(now time.Duration, answer *loadbalancerv1.AnnounceResponse) {
	h.handOvers = handOversOf(answer)
	h.handOversAt = now
}

// handOversLocked returns the hand-overs that have not ended.
func (h *Holder) handOversLocked(now time.Duration) []handOver {
	var all []handOver
	for _, o := range h.handOvers {
		if o.Left -= now - h.handOversAt; o.Left > 0 {
			all = append(all, o)
		}
	}
	return all
}

// handOversWithout returns the hand-overs of other addresses.
func (h *Holder) handOversWithout(addrs []netip.Addr) []handOver {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(h.handOversLocked(h.clock()), func(o handOver) bool { return slices.Contains(addrs, o.Address) })
}

// endHandOvers forgets the hand-overs of addresses.
func (h *Holder) endHandOvers(addrs []netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handOvers = slices.DeleteFunc(h.handOvers, func(o handOver) bool { return slices.Contains(addrs, o.Address) })
}

// HandOvers returns the previous nodes of the addresses that have one.
func (h *Holder) HandOvers() map[netip.Addr]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	nodes := map[netip.Addr]string{}
	for _, o := range h.handOversLocked(h.clock()) {
		nodes[o.Address] = o.node
	}
	return nodes
}

// message returns a hand-over as a message of the contract.
func (o handOver) message() *loadbalancerv1.HandOver {
	return &loadbalancerv1.HandOver{Address: o.Address.String(), Node: o.node, Via: o.Via.String(), Left: durationpb.New(o.Left)}
}

// openHandOvers opens the machine's hand-overs. If the node does not announce, or its kernel does not forward,
// openHandOvers ends the hand-overs of an earlier agent.
func (a *Announcer) openHandOvers() {
	table, err := a.opts.Machine.HandOvers()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return
	case err != nil:
		a.noteHandOvers(err)
		return
	case a.Enabled() && a.opts.Stays:
		a.handOvers = table
		return
	}
	a.noteHandOvers(errors.Join(table.Set(nil), table.Close()))
}

// handOver puts the hand-overs of an answer in force, before the node announces the addresses. It leaves out
// hand-overs to a node behind a router, because the router would send the packets back.
func (a *Announcer) handOver(all []handOver) {
	if a.handOvers == nil {
		return
	}
	subnets := a.responder.Subnets()
	var reached []machine.HandOver
	var err error
	for _, o := range all {
		if !slices.ContainsFunc(subnets, func(p netip.Prefix) bool { return p.Contains(o.Via) && p.Addr() != o.Via }) {
			err = fmt.Errorf("no network with %s, which is node %s", o.Via, o.node)
			continue
		}
		reached = append(reached, o.HandOver)
	}
	a.noteHandOvers(errors.Join(err, a.handOvers.Set(reached)))
}

// noteHandOvers stores the error of the hand-overs, and logs it if it has changed.
func (a *Announcer) noteHandOvers(err error) {
	text := ""
	if err != nil {
		text = "connections of the previous node: " + err.Error()
	}
	if before := a.handOverError.Swap(&text); text != "" && (before == nil || *before != text) {
		a.opts.Log.Warn("addresses that have moved here", "err", err)
	}
}

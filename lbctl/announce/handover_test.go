package announce

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// checkHandOvers fails if a node that does not announce an address sends packets for it on. So no packet arrives
// at a node that sends it on again.
func (w *world) checkHandOvers() {
	for _, wanted := range w.wanted {
		for _, a := range w.agents {
			if to := w.handsOver(a, wanted.Address); to != "" && !a.announces(w.real, wanted.Address) {
				w.Fatalf("%s sends packets to %s on to %s, and does not announce it", a.name, wanted.Address, to)
			}
		}
	}
}

// TestHandOver checks that the next node of an address gets a hand-over from the previous node if that node lives
// and both forward without their agents, also after a change of the leader and a restart of an agent. The
// hand-over ends when the previous node dies, when its time is over, and when the address moves on.
func TestHandOver(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		w.run(settleTime)
		addr := w.wanted[0].Address
		first := w.announcer(addr)
		first.state.Draining = true
		w.run(2 * time.Second)
		second := w.announcer(addr)
		want := ""
		if first.state.Stays && second.state.Stays {
			want = first.name
		}
		w.expectHandOver(addr, want)

		switch rapid.SampledFrom([]string{"leader", "agent of the first", "agent of the second", "connection"}).Draw(rt, "upheaval") {
		case "leader":
			w.newLeader()
		case "agent of the first":
			w.kill(first)
			w.run(500 * time.Millisecond)
			w.start(first)
			first.state.Draining = true
		case "agent of the second":
			if second.state.Stays { // otherwise the address moves
				w.kill(second)
				w.run(500 * time.Millisecond)
				w.start(second)
				w.run(time.Second)
			}
		case "connection":
			w.breakConnection(first, rapid.Bool().Draw(rt, "closed by the agent's machine"))
		}
		for range 60 {
			w.run(50 * time.Millisecond)
			w.expectHandOver(addr, want)
		}

		switch rapid.SampledFrom([]string{"death", "time", "next move"}).Draw(rt, "end") {
		case "death":
			w.die(first)
			w.run(4 * time.Second)
			w.expectHandOver(addr, "")
		case "time":
			w.run(simHandOver)
			w.expectHandOver(addr, "")
		case "next move":
			first.state.Draining, second.state.Draining = false, true
			w.run(4 * time.Second)
			third := w.announcer(addr)
			if want = ""; second.state.Stays && third.state.Stays {
				want = second.name
			}
			w.expectHandOver(addr, want)
		}
		w.checkHandOvers()
	})
}

// announcer returns the agent that announces an address.
func (w *world) announcer(addr netip.Addr) *agent {
	i := slices.IndexFunc(w.agents, func(a *agent) bool { return a.announces(w.real, addr) })
	if i < 0 {
		w.Fatalf("nobody announces %s: %+v", addr, w.leader.assigner.Statuses(w.leader.clock.at(w.real)))
	}
	return w.agents[i]
}

// expectHandOver fails unless the node that announces an address sends packets on to a node.
func (w *world) expectHandOver(addr netip.Addr, to string) {
	if a := w.announcer(addr); w.handsOver(a, addr) != to {
		w.Fatalf("after %s, %s sends packets to %s on to %q, want %q", w.real, a.name, addr, w.handsOver(a, addr), to)
	}
}

// TestNoHandOverToANodeThatHandsOver checks that a node gets no hand-over from a previous node while that node itself
// sends packets for the address on, because packets could return to it.
func TestNoHandOverToANodeThatHandsOver(t *testing.T) {
	addr, now := netip.MustParseAddr("192.0.2.10"), time.Now()
	a := NewAssigner(Options{})
	a.Begin(now)
	a.SetWanted(now, []Wanted{{Address: addr, Nodes: map[string]bool{"n1": true, "n2": true}}})
	sequences := map[string]uint64{}
	subnets := map[string]netip.Prefix{"n1": netip.MustParsePrefix("192.0.2.1/24"), "n2": netip.MustParsePrefix("192.0.2.2/24")}
	// say sends a message of a node that has followed all answers.
	say := func(node string, draining bool, handOvers []HandOver, addrs ...netip.Addr) Answer {
		t.Helper()
		stream := map[string]uint64{"n1": 1, "n2": 2}[node]
		followed := uint64(greeting)
		if n := a.nodes[node]; n != nil {
			followed = n.answer
		}
		sequences[node]++
		m := Message{
			Node: node, Instance: node, Sequence: sequences[node], Followed: followed, Addresses: addrs, HandOvers: handOvers,
			State: State{Ready: true, Stays: true, Draining: draining, Subnets: []netip.Prefix{subnets[node]}},
		}
		if err := a.Receive(now, stream, m); err != nil {
			t.Fatal(err)
		}
		answer, ok := a.Answer(now, node, stream)
		if !ok {
			t.Fatalf("no answer for %s", node)
		}
		return answer
	}
	say("n1", false, nil)
	say("n2", false, nil)
	now = now.Add(DefaultValidity + DefaultValidity/8)
	first, second := "n1", "n2"
	say(first, false, nil)
	say(second, false, nil)
	a.Tick(now)
	if len(say(first, false, nil).Addresses) == 0 {
		first, second = second, first
	}
	say(first, false, nil, addr) // it announces the address
	say(first, true, nil)        // and drains, so that the address moves
	if got := say(second, false, nil, addr).HandOvers; len(got) != 1 || got[0].Node != first || got[0].Address != addr {
		t.Errorf("hand-overs %v, want one from %s", got, first)
	}
	say(first, true, []HandOver{{Address: addr, Node: second}})
	if got := say(second, false, nil, addr).HandOvers; len(got) > 0 {
		t.Errorf("%s hands over to %s, which hands over itself: %v", second, first, got)
	}
}

// TestOwnersOutliveTheirRights checks that addresses and hand-overs stay where they are when there was
// no leader for longer than the rights last.
func TestOwnersOutliveTheirRights(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		w.run(settleTime)
		addr := w.wanted[0].Address
		first := w.announcer(addr)
		first.state.Draining = true
		w.run(2 * time.Second)
		first.state.Draining = false
		second := w.announcer(addr)
		want := w.handsOver(second, addr)
		w.run(time.Second)

		w.leader.leads = false
		w.run(time.Duration(rapid.IntRange(0, 1000).Draw(rt, "steps without a leader")) * step)
		w.newLeader()
		w.run(settleTime)
		if got := w.announcer(addr); got != second {
			rt.Fatalf("the address has moved from %s to %s", second.name, got.name)
		}
		w.expectHandOver(addr, want)
	})
}

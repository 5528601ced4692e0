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

// TestTwoNodesDoNotHandOverToEachOther moves an address to another node and back, before the other node has said that
// it stopped to send packets on. If the first node were told to send them to the other node too, a packet of an unknown
// connection would go to and fro between the two kernels.
func TestTwoNodesDoNotHandOverToEachOther(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	now := time.Unix(0, 0)
	a := NewAssigner(Options{})
	a.Begin(now)
	a.SetWanted(now, []Wanted{{Address: addr, Nodes: map[string]bool{"n1": true, "n2": true}}})
	sequence := map[string]uint64{}
	states := map[string]State{}
	for n, name := range []string{"n1", "n2"} {
		states[name] = State{Ready: true, Stays: true, Subnets: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(101 + n)}), 24)}}
	}
	// send sends a message of a node and returns the answer. The node lists the addresses and hand-overs of the
	// answer before.
	send := func(name string, before Answer) Answer {
		t.Helper()
		now = now.Add(100 * time.Millisecond)
		a.Tick(now)
		sequence[name]++
		stream := uint64(name[1])
		m := Message{
			Node: name, Instance: "i", Sequence: sequence[name], Followed: max(greeting, before.Sequence), State: states[name],
			Addresses: before.Addresses, HandOvers: before.HandOvers,
		}
		if err := a.Receive(now, stream, m); err != nil {
			t.Fatal(err)
		}
		answer, ok := a.Answer(now, name, stream)
		if !ok {
			t.Fatalf("%s gets no answer", name)
		}
		return answer
	}
	handsOver := func(to string, answer Answer) {
		t.Helper()
		var got string
		for _, h := range answer.HandOvers {
			got += h.Node
		}
		if got != to {
			t.Errorf("after %s the node hands over to %q, want %q", now.Sub(time.Unix(0, 0)), got, to)
		}
	}
	drain := func(name string, draining bool) {
		state := states[name]
		state.Draining = draining
		states[name] = state
	}

	drain("n2", true)
	var first, second Answer
	for range 30 { // until the term has settled
		first, second = send("n1", first), send("n2", second)
	}
	if !slices.Equal(first.Addresses, []netip.Addr{addr}) {
		t.Fatalf("the first node announces %v", first.Addresses)
	}
	drain("n1", true)
	drain("n2", false)
	for range 3 {
		first, second = send("n1", first), send("n2", second)
	}
	if !slices.Equal(second.Addresses, []netip.Addr{addr}) {
		t.Fatalf("the second node announces %v", second.Addresses)
	}
	handsOver("n1", second)

	drain("n1", false)
	drain("n2", true)
	kept := Answer{Sequence: second.Sequence, Addresses: second.Addresses, HandOvers: second.HandOvers}
	second = send("n2", kept) // it has not followed an answer without the address yet
	first = send("n1", first)
	handsOver("", first)
	second = send("n2", second)
	first = send("n1", first)
	handsOver("n2", first)
	handsOver("", second)
}

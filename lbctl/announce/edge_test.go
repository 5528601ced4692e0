package announce

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAnEdgeThatStops checks that the address of an edge that stops moves at once to a node with an edge for it.
// The previous node gets the packets of its connections exactly as long as its edge may have connections. If no
// edge is left, the reason of the address is NoEdge.
func TestAnEdgeThatStops(t *testing.T) {
	// A message and an answer for each of both nodes, at up to 40 ms each, by a slow clock.
	const atOnce = 250 * time.Millisecond
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		w.wanted[0].Proxied = true
		for _, a := range w.agents {
			w.setEdge(a, serving)
		}
		w.setWanted()
		w.run(settleTime)
		addr := w.wanted[0].Address
		first := w.announcer(addr)
		w.setEdge(first, rapid.SampledFrom([]edge{draining, down}).Draw(rt, "the edge is"))
		if names := w.owners(addr); len(names) > 0 {
			rt.Fatalf("%v announce an address whose edge is %s", names, first.edge)
		}
		w.run(atOnce)
		second := w.announcer(addr)
		want := ""
		if first.edge == draining && first.state.Stays && second.state.Stays {
			want = first.name
		}
		w.expectHandOver(addr, want)
		if rapid.Bool().Draw(rt, "the agent of the first is restarted") {
			w.kill(first)
			w.run(500 * time.Millisecond)
			w.start(first)
			w.run(time.Second)
			w.expectHandOver(addr, want)
		}
		w.setEdge(first, down)
		w.run(time.Second)
		w.expectHandOver(addr, "")
		if w.announcer(addr) != second {
			rt.Fatal("the address has moved")
		}

		for _, a := range w.agents {
			w.setEdge(a, down)
		}
		w.run(time.Second)
		for _, s := range w.leader.assigner.Statuses(w.leader.clock.at(w.real)) {
			if s.Address == addr && (s.Reason != NoEdge || s.Node != "" || !strings.Contains(s.Message, "run edge on a node, with -agent")) {
				rt.Fatalf("without edges the state is %+v", s)
			}
		}
		w.setEdge(first, serving)
		w.run(atOnce)
		if w.announcer(addr) != first {
			rt.Fatal("the only edge does not get the address")
		}
	})
}

// TestEdgesTakeTurns checks that an address that moves back and forth between two nodes is handed over to
// the node that had it last, each time at once.
func TestEdgesTakeTurns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		w.wanted[0].Proxied = true
		for n, a := range w.agents {
			a.state.Stays = true
			w.setEdge(a, []edge{serving, serving, down, down}[n])
		}
		w.setWanted()
		w.run(settleTime)
		addr := w.wanted[0].Address
		owner := w.announcer(addr)
		for range 4 {
			w.setEdge(owner, draining)
			w.run(250 * time.Millisecond)
			next := w.announcer(addr)
			w.expectHandOver(addr, owner.name)
			w.checkHandOvers()
			w.setEdge(owner, serving)
			w.run(time.Duration(rapid.IntRange(0, 100).Draw(rt, "steps between two turns")) * step)
			owner = next
		}
	})
}

// TestAnEdgeOutlivesItsAgent checks that an address stays with its node while the agent restarts, and moves if
// the edge has ended too.
func TestAnEdgeOutlivesItsAgent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		w.wanted[0].Proxied = true
		for _, a := range w.agents {
			a.state.Stays = true
			w.setEdge(a, serving)
		}
		w.setWanted()
		w.run(settleTime)
		addr := w.wanted[0].Address
		owner := w.announcer(addr)
		w.kill(owner)
		w.run(time.Duration(rapid.IntRange(1, 200).Draw(rt, "steps without the agent")) * step)
		lives := rapid.Bool().Draw(rt, "the edge lives")
		if !lives {
			w.setEdge(owner, down)
		}
		w.start(owner)
		for range 100 {
			w.run(step)
			for _, name := range w.owners(addr) {
				if lives && name != owner.name {
					rt.Fatalf("%s announces an address that the edge of %s still serves", name, owner.name)
				}
			}
		}
		if !lives {
			w.run(3 * time.Second) // until the rights of the former process have ended
		}
		if got := w.announcer(addr); (got == owner) != lives {
			rt.Fatalf("%s announces the address of %s, whose edge lives: %v", got.name, owner.name, lives)
		}
	})
}

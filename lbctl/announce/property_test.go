package announce

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// upheaval makes one random change.
func (w *world) upheaval() {
	a := rapid.SampledFrom(w.agents).Draw(w.T, "agent")
	switch rapid.SampledFrom([]string{"kill", "die", "start", "restart", "cut", "heal", "break", "slow", "fast", "drain", "ready", "leader", "no leader", "policy", "remove", "edge"}).Draw(w.T, "change") {
	case "kill":
		w.kill(a)
	case "die":
		w.die(a)
	case "start":
		if !a.alive {
			w.start(a)
		}
	case "restart": // as planned: the last message says so
		if a.alive && a.conn != nil && a.followed > 0 {
			a.state.Restarting = true
			w.send(a)
			a.alive, a.conn = false, nil
		}
	case "cut": // packets under way arrive later or never
		a.cut = true
	case "heal":
		a.cut = false
	case "break": // the process lives
		w.breakConnection(a, rapid.Bool().Draw(w.T, "closed by the agent's machine"))
	case "slow":
		w.slow = true
	case "fast":
		w.slow = false
	case "drain":
		a.state.Draining = !a.state.Draining
	case "ready":
		a.state.Ready = !a.state.Ready
	case "leader":
		w.newLeader()
	case "no leader":
		w.leader.leads = false
		w.run(time.Duration(rapid.IntRange(0, 400).Draw(w.T, "no leader for")) * step)
		w.newLeader()
	case "policy":
		n := rapid.IntRange(0, len(w.wanted)-1).Draw(w.T, "address")
		nodes := maps.Clone(w.wanted[n].Nodes)
		if !nodes[a.name] {
			nodes[a.name] = true
		} else {
			delete(nodes, a.name)
		}
		w.wanted[n].Nodes = nodes
		w.setWanted()
	case "edge":
		w.setEdge(a, rapid.SampledFrom([]edge{serving, draining, down}).Draw(w.T, "edge"))
	case "remove": // the service is deleted and made again
		n := rapid.IntRange(0, len(w.wanted)-1).Draw(w.T, "address")
		all := w.wanted
		w.wanted = slices.Delete(slices.Clone(all), n, n+1)
		w.setWanted()
		w.tellEdges()
		w.run(time.Duration(rapid.IntRange(0, 100).Draw(w.T, "gone for")) * step)
		w.wanted = all
		w.setWanted()
		w.tellEdges()
	}
}

// calm ends all faults. Changes that are no faults stay.
func (w *world) calm() {
	w.slow = false
	for _, a := range w.agents {
		a.cut = false
		if !a.alive {
			w.start(a)
		}
	}
}

// settleTime is longer than a term needs to settle by a slow clock, with a restart before it, and
// with messages of a second and a half under way.
const settleTime = simGrace + 6*time.Second

// eligible returns the names of the agents that may announce an address.
func (w *world) eligible(wanted Wanted) []string {
	var names []string
	for _, a := range w.agents {
		if a.alive && a.state.Ready && !a.state.Draining && wanted.Nodes[a.name] && (!wanted.Proxied || a.edge == serving) {
			names = append(names, a.name)
		}
	}
	return names
}

// TestOneNodeAnnouncesEachAddress checks the invariant of the package in random histories, that
// each address with an eligible node is announced again after them, and that it then stays.
func TestOneNodeAnnouncesEachAddress(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		w.run(3 * time.Second)
		for range rapid.IntRange(1, 25).Draw(rt, "changes") {
			w.upheaval()
			w.run(time.Duration(rapid.IntRange(0, 120).Draw(rt, "steps")) * step)
		}
		w.calm()
		w.run(settleTime)
		w.checkHandOvers()
		before := map[string]string{}
		for _, wanted := range w.wanted {
			owners, eligible := w.owners(wanted.Address), w.eligible(wanted)
			switch {
			case len(owners) == 0 && len(eligible) > 0:
				rt.Fatalf("%s is not announced, and %v may: %+v", wanted.Address, eligible, w.leader.assigner.Statuses(w.leader.clock.at(w.real)))
			case len(owners) == 1 && !slices.Contains(eligible, owners[0]):
				rt.Fatalf("%s is announced by %s, which may not", wanted.Address, owners[0])
			case len(owners) == 1:
				before[wanted.Address.String()] = owners[0]
			}
		}
		w.commotion(before)
		w.run(3 * time.Second)
		for _, wanted := range w.wanted {
			if owners := w.owners(wanted.Address); len(owners) == 1 && owners[0] != before[wanted.Address.String()] {
				rt.Fatalf("%s has moved from %q to %s", wanted.Address, before[wanted.Address.String()], owners[0])
			} else if len(owners) == 0 && before[wanted.Address.String()] != "" {
				rt.Fatalf("%s is not announced any more", wanted.Address)
			}
		}
	})
}

// commotion makes changes after which no owner may lose its address: agents that own nothing come
// and go, connections break, and another leader begins.
func (w *world) commotion(owners map[string]string) {
	for _, a := range w.agents {
		if !slices.Contains(slices.Collect(maps.Values(owners)), a.name) {
			w.breakConnection(a, false)
			w.start(a)
		}
	}
	a := rapid.SampledFrom(w.agents).Draw(w.T, "broken connection")
	w.breakConnection(a, rapid.Bool().Draw(w.T, "closed by the agent's machine"))
	w.run(time.Second)
	w.newLeader()
}

// TestTheAddressWaitsForAnAgentThatDied kills the agent of a node. If the node forwards without its agent, its
// addresses must stay for the time of a restart, and the restarted agent announces them at once. Otherwise they
// must move as soon as after the death of the node.
func TestTheAddressWaitsForAnAgentThatDied(t *testing.T) {
	// The longest time that a fail-over takes: a guard by a slow clock, a tick, and the messages.
	const failOver = DefaultValidity + DefaultValidity/8 + DefaultValidity/4
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		w.run(settleTime)
		addr := w.wanted[0].Address
		owner := w.agents[slices.IndexFunc(w.agents, func(a *agent) bool { return a.announces(w.real, addr) })]
		machine := rapid.Bool().Draw(rt, "the machine dies too")
		if machine {
			w.die(owner)
		} else {
			w.kill(owner)
		}
		stays := owner.state.Stays && !machine
		away := time.Duration(rapid.IntRange(1, 600).Draw(rt, "steps until it is back")) * step
		for until := w.real + away; w.real < until; w.run(step) {
			others := w.owners(addr)
			if restart := simGrace * 9 / 10; stays && w.real < until-away+restart && len(others) > 0 {
				rt.Fatalf("%v announce after %s of a restart", others, w.real-until+away)
			}
			if !stays && w.real > until-away+failOver && len(others) == 0 {
				rt.Fatalf("nobody announces %s after the death", w.real-until+away)
			}
		}
		w.start(owner)
		w.run(time.Second)
		switch names := w.owners(addr); {
		case stays && away < simGrace*9/10 && !slices.Equal(names, []string{owner.name}):
			rt.Fatalf("%v announce after a restart of the agent of %s that took %s", names, owner.name, away)
		case !stays && away > failOver && slices.Contains(names, owner.name):
			rt.Fatalf("the address went back to %s", owner.name)
		}
	})
}

// TestTheChoiceIsTheSameEverywhere checks that the owner depends on the nodes and the address only,
// and that only the addresses of a node that leaves get another owner.
func TestTheChoiceIsTheSameEverywhere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching("[a-z][a-z0-9]{0,9}"), 2, 8, rapid.ID).Draw(rt, "nodes")
		other := rapid.Permutation(names).Draw(rt, "in another order")
		first, second := owners(rt, names), owners(rt, other)
		if !maps.Equal(first, second) {
			rt.Fatalf("%v and %v", first, second)
		}
		gone := names[0]
		for addr, owner := range owners(rt, names[1:]) {
			if first[addr] != gone && first[addr] != owner {
				rt.Fatalf("%s moves from %s to %s when %s goes", addr, first[addr], owner, gone)
			}
		}
	})
}

// owners returns the owners of 64 addresses among nodes that connect in an order.
func owners(t *rapid.T, names []string) map[string]string {
	now := time.Unix(0, 0)
	a := NewAssigner(Options{})
	a.Begin(now)
	all := map[string]bool{}
	for i, name := range names {
		all[name] = true
		m := Message{Node: name, Instance: "i", Sequence: 1, Followed: greeting, State: State{Ready: true, Subnets: []netip.Prefix{subnet}}}
		if err := a.Receive(now, uint64(i+1), m); err != nil {
			t.Fatal(err)
		}
	}
	var wanted []Wanted
	for n := range 64 {
		wanted = append(wanted, Wanted{Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), Nodes: all})
	}
	a.SetWanted(now, wanted)
	later := now.Add(DefaultValidity + DefaultValidity/8)
	for i, name := range names { // the nodes are still there when the term settles
		m := Message{Node: name, Instance: "i", Sequence: 2, Followed: greeting, State: State{Ready: true, Subnets: []netip.Prefix{subnet}}}
		if err := a.Receive(now.Add(DefaultValidity/2), uint64(i+1), m); err != nil {
			t.Fatal(err)
		}
	}
	a.Tick(later)
	found := map[string]string{}
	for _, s := range a.Statuses(later) {
		if s.Node == "" {
			t.Fatalf("%+v", s)
		}
		found[s.Address.String()] = s.Node
	}
	if len(found) != 64 {
		t.Fatal(fmt.Sprint(len(found), " addresses"))
	}
	return found
}

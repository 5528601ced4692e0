package plan_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// states draws states from a small set of values, so that two states have much in common.
func states() *rapid.Generator[*plan.State] {
	return rapid.Custom(func(t *rapid.T) *plan.State {
		s := &plan.State{Servers: map[plan.Key]*plan.VirtualServer{}}
		if rapid.Bool().Draw(t, "pods") {
			s.Sources.Pods = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
		}
		for range rapid.IntRange(0, 6).Draw(t, "servers") {
			v := virtualServer(t)
			s.Servers[v.Key] = v
		}
		return s
	})
}

func virtualServer(t *rapid.T) *plan.VirtualServer {
	v := &plan.VirtualServer{
		Key: plan.Key{
			Frontend: plan.Frontend{
				Addr:     netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, rapid.ByteMax(2).Draw(t, "vip")}), 80),
				Protocol: rapid.SampledFrom([]plan.Protocol{plan.TCP, plan.UDP}).Draw(t, "protocol"),
			},
			Audience: rapid.SampledFrom([]plan.Audience{plan.AnyClient, plan.Internal, plan.External}).Draw(t, "audience"),
		},
		Attributes: plan.Attributes{
			Service:    object.Name{Namespace: "default", Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "service")},
			Scheduler:  plan.Scheduler(rapid.IntRange(1, 2).Draw(t, "scheduler")),
			Affinity:   time.Duration(rapid.IntRange(0, 1).Draw(t, "affinity")) * time.Second,
			Restricted: rapid.Bool().Draw(t, "restricted"),
		},
	}
	if v.Restricted {
		v.Allowed = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	}
	for i := range byte(4) {
		if rapid.Bool().Draw(t, "backend") {
			v.Reals = append(v.Reals, plan.RealServer{
				Addr:   netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, i}), 8080),
				Weight: uint32(rapid.IntRange(0, 2).Draw(t, "weight")),
			})
		}
	}
	return v
}

// after returns the state that steps lead to from another one.
func after(state *plan.State, steps []plan.Step) *plan.State {
	next := &plan.State{Sources: state.Sources, Servers: maps.Clone(state.Servers)}
	for _, s := range steps {
		switch s.Op {
		case plan.SetSources:
			next.Sources = *s.Sources
		case plan.AddServer:
			next.Servers[s.Key] = s.Server
		case plan.DeleteServer:
			delete(next.Servers, s.Key)
		default:
			server := *next.Servers[s.Key]
			changeServer(&server, s)
			next.Servers[s.Key] = &server
		}
	}
	return next
}

func changeServer(v *plan.VirtualServer, s plan.Step) {
	if s.Op == plan.UpdateServer {
		v.Attributes = s.Server.Attributes
		return
	}
	v.Reals = slices.DeleteFunc(slices.Clone(v.Reals), func(r plan.RealServer) bool { return r.Addr == s.Real.Addr })
	if s.Op != plan.DeleteReal {
		v.Reals = append(v.Reals, s.Real)
	}
	slices.SortFunc(v.Reals, func(a, b plan.RealServer) int { return a.Addr.Compare(b.Addr) })
}

func same(a, b *plan.State) error {
	if !a.Sources.Equal(&b.Sources) {
		return fmt.Errorf("sources %v and %v", a.Sources, b.Sources)
	}
	if len(a.Servers) != len(b.Servers) {
		return fmt.Errorf("%d and %d servers", len(a.Servers), len(b.Servers))
	}
	for key, v := range a.Servers {
		if o := b.Servers[key]; o == nil || !v.Equal(o) {
			return fmt.Errorf("%s: %+v and %+v", key, v, o)
		}
	}
	return nil
}

// TestDiffLeadsToTheTarget checks that the steps lead to the target state, that there are none
// between equal states, and that they are in the order that loses no traffic.
func TestDiffLeadsToTheTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := states().Draw(t, "a"), states().Draw(t, "b")
		steps := plan.Diff(a, b)
		if err := same(after(a, steps), b); err != nil {
			t.Fatalf("after %v: %v", steps, err)
		}
		if !slices.IsSortedFunc(steps, func(x, y plan.Step) int { return int(x.Op) - int(y.Op) }) {
			t.Fatalf("out of order: %v", steps)
		}
		if again := plan.Diff(b, after(a, steps)); len(again) != 0 {
			t.Fatalf("steps between equal states: %v", again)
		}
	})
}

// TestChangedNamesWhatDiffers checks that the changed frontends, with their servers, lead from one
// state to another, and that none of them is the same in both.
func TestChangedNamesWhatDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := states().Draw(t, "a"), variant(t, states().Draw(t, "base"))
		changed := plan.Changed(a, b)
		got := &plan.State{Sources: a.Sources, Servers: maps.Clone(a.Servers)}
		if changed.Sources != nil {
			got.Sources = *changed.Sources
		}
		for _, f := range changed.Frontends {
			equal := true
			for _, audience := range plan.Audiences {
				key := plan.Key{Frontend: f.Frontend, Audience: audience}
				equal = equal && plan.Same(a.Servers[key], f.Servers[audience])
				if delete(got.Servers, key); f.Servers[audience] != nil {
					got.Servers[key] = f.Servers[audience]
				}
			}
			if equal {
				t.Fatalf("%s has not changed", f.Frontend)
			}
		}
		if err := same(got, b); err != nil {
			t.Fatalf("after %v: %v", changed, err)
		}
	})
}

// TestNoStepDropsTraffic checks that a client that is served before and after a change is also
// served after every single step of it.
func TestNoStepDropsTraffic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := states().Draw(t, "a")
		b := variant(t, a)
		state := a
		for _, step := range plan.Diff(a, b) {
			state = after(state, []plan.Step{step})
			for _, c := range clients(a, b) {
				if c.served(a) && c.served(b) && !c.served(state) {
					t.Fatalf("%+v is served at both ends of the change, but not after %q", c, step)
				}
			}
		}
	})
}

// variant returns a state that is a likely successor of the given one: about half of the servers
// differ in the weights of their backends only.
func variant(t *rapid.T, of *plan.State) *plan.State {
	b := states().Draw(t, "b")
	for key, v := range of.Servers {
		if rapid.Bool().Draw(t, "anew") {
			continue
		}
		next := *v
		next.Reals = slices.Clone(v.Reals)
		for i := range next.Reals {
			next.Reals[i].Weight = uint32(rapid.IntRange(0, 1).Draw(t, "weight"))
		}
		b.Servers[key] = &next
	}
	return b
}

// aClient is a client of a frontend.
type aClient struct {
	from   netip.Addr
	to     plan.Frontend
	inside bool
}

// clients returns one client of each kind at each frontend: a pod, and external programs that
// source ranges admit or reject. Clients that the change of sources moves between internal and
// external are left out, because a different server serves them afterwards.
func clients(a, b *plan.State) []aClient {
	var out []aClient
	for _, s := range []*plan.State{a, b} {
		for key := range s.Servers {
			for _, from := range []string{"10.1.0.77", "192.0.2.77", "198.51.100.77"} {
				addr := netip.MustParseAddr(from)
				if inside := a.Sources.IsInternal(addr); inside == b.Sources.IsInternal(addr) {
					out = append(out, aClient{addr, key.Frontend, inside})
				}
			}
		}
	}
	return out
}

// served reports whether the client reaches a backend.
func (c aClient) served(s *plan.State) bool {
	audience := plan.External
	if c.inside {
		audience = plan.Internal
	}
	v := s.Servers[plan.Key{Frontend: c.to, Audience: audience}]
	if v == nil {
		v = s.Servers[plan.Key{Frontend: c.to, Audience: plan.AnyClient}]
	}
	if v == nil || v.Restricted && !slices.ContainsFunc(v.Allowed, func(p netip.Prefix) bool { return p.Contains(c.from) }) {
		return false
	}
	return slices.ContainsFunc(v.Reals, func(r plan.RealServer) bool { return r.Weight > 0 })
}

package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"portolan.dev/nodeagent/plan"
)

// states draws states from few values, so that two of them have much in common.
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
			Audience: rapid.SampledFrom([]plan.Audience{plan.Anyone, plan.Internal, plan.External}).Draw(t, "audience"),
		},
		Attributes: plan.Attributes{
			Service:    plan.ServiceName{Namespace: "default", Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "service")},
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

// TestDiffThenApply: the steps lead where they should, there are none between
// equal states, and they come in the order that loses no traffic.
func TestDiffThenApply(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := states().Draw(t, "a"), states().Draw(t, "b")
		steps := plan.Diff(a, b)
		if err := same(plan.Apply(a, steps), b); err != nil {
			t.Fatalf("after %v: %v", steps, err)
		}
		if !slices.IsSortedFunc(steps, func(x, y plan.Step) int { return int(x.Op) - int(y.Op) }) {
			t.Fatalf("out of order: %v", steps)
		}
		if again := plan.Diff(b, plan.Apply(a, steps)); len(again) != 0 {
			t.Fatalf("steps between equal states: %v", again)
		}
	})
}

// TestStepsNeverTakeTheLastBackendFirst: a server that has a backend with
// weight before and after a change has one all the time.
func TestStepsNeverTakeTheLastBackendFirst(t *testing.T) {
	usable := func(v *plan.VirtualServer) bool {
		return v != nil && slices.ContainsFunc(v.Reals, func(r plan.RealServer) bool { return r.Weight > 0 })
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := states().Draw(t, "a"), states().Draw(t, "b")
		state := a
		for _, step := range plan.Diff(a, b) {
			state = plan.Apply(state, []plan.Step{step})
			for key := range a.Servers {
				if usable(a.Servers[key]) && usable(b.Servers[key]) && !usable(state.Servers[key]) && !weightsSwap(a.Servers[key], b.Servers[key]) {
					t.Fatalf("%s has no backend after %q", key, step)
				}
			}
		}
	})
}

// weightsSwap tells of the one exception: weights of backends that stay are
// changed one after the other, and only those had or get any.
func weightsSwap(a, b *plan.VirtualServer) bool {
	for _, r := range b.Reals {
		old, ok := a.Real(r.Addr)
		if r.Weight > 0 && (!ok || old.Weight > 0) {
			return false
		}
	}
	return true
}

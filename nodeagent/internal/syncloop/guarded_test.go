package syncloop

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/guard/guardtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// at returns the frontend of an address.
func at(addr netip.AddrPort) plan.Frontend { return plan.Frontend{Addr: addr, Protocol: plan.TCP} }

// wantFailing checks the services that a heartbeat names as not forwarded as planned.
func (b *bench) wantFailing(names ...string) {
	b.t.Helper()
	var beat nodeagentv1.Heartbeat
	if b.FillHeartbeat(&beat); !slices.Equal(beat.GetFailingServices(), names) || beat.GetAppliedRevision() != b.revision {
		b.t.Errorf("failing are %q at %d, want %q at %d", beat.GetFailingServices(), beat.GetAppliedRevision(), names, b.revision)
	}
}

// TestAServiceWithAPlanThatPanicsKeepsItsFormerPlan lets the plan of one service panic. The others are programmed, and
// this one is forwarded as before, counts as failing, and is programmed after its next change.
func TestAServiceWithAPlanThatPanicsKeepsItsFormerPlan(t *testing.T) {
	b := newUserspaceBench(t)
	w := guardtest.New(t)
	b.guard = w.Guard
	bad, web, next := freeAt(t, "127.101.7.11"), freeAt(t, "127.101.7.12"), freeAt(t, "127.101.7.13")
	backend := kittest.Listen(t).Addr().(*net.TCPAddr).AddrPort()
	b.change(webService("bad", 1, bad), sliceOf("bad", backend))
	b.sync(t.Context())
	b.wantFailing()
	w.BreakName("bad", stepPlan)
	b.change(webService("bad", 1, next), webService("web", 2, web), sliceOf("web", backend))
	b.sync(t.Context())
	for frontend, owner := range map[netip.AddrPort]string{bad: "bad", web: "web", next: ""} {
		if got := b.table.Owner(at(frontend)); got.Name != owner {
			t.Errorf("%s is of %q, want %q", frontend, got.Name, owner)
		}
	}
	w.Want("Service default/bad")
	b.wantFailing("default/bad")
	b.ReportHealthCheckPort(object.Name{Namespace: "default", Name: "bad"}, 1, nil) // ends other failures only
	b.wantFailing("default/bad")
	w.Mend()
	b.change(webService("bad", 3, next))
	b.sync(t.Context())
	if got := b.table.Owner(at(next)); got.Name != "bad" || b.table.Owner(at(bad)).Name != "" {
		t.Errorf("%s is of %q", next, got)
	}
	w.Want()
	b.wantFailing()
	if got := w.Events(); !slices.Equal(got, []string{"Service default/bad Panicked"}) {
		t.Errorf("events %q", got)
	}
}

// fragile is a data plane that panics at one frontend, or at the sources.
type fragile struct {
	dataplane.Plane
	at      atomic.Pointer[plan.Frontend]
	sources atomic.Bool
}

func (p *fragile) Apply(ctx context.Context, changed plan.Changes) []dataplane.Failure {
	if broken := p.at.Load(); broken != nil {
		for _, f := range changed.Frontends {
			if f.Frontend == *broken {
				panic("broken on purpose")
			}
		}
	}
	if changed.Sources != nil && p.sources.Load() {
		panic("broken on purpose")
	}
	return p.Plane.Apply(ctx, changed)
}

// TestAFrontendThatPanicsIsRetriedAlone lets the data plane panic at one of three frontends of a batch.
func TestAFrontendThatPanicsIsRetriedAlone(t *testing.T) {
	b := newUserspaceBench(t)
	w := guardtest.New(t)
	b.guard = w.Guard
	plane := &fragile{Plane: b.plane}
	b.plane = plane
	names := []string{"a", "bad", "z"}
	backend := kittest.Listen(t).Addr().(*net.TCPAddr).AddrPort()
	frontends := map[string]netip.AddrPort{}
	for i, name := range names {
		frontends[name] = freeAt(t, "127.101.7.2"+string(rune('0'+i)))
		b.change(webService(name, int64(i), frontends[name]), sliceOf(name, backend))
	}
	broken := at(frontends["bad"])
	plane.at.Store(&broken)
	plane.sources.Store(true)
	b.SetFacts(plan.Facts{Node: "here"}, plan.Sources{Node: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}})
	b.sync(t.Context())
	for _, name := range names {
		if v := b.plane.Programmed(plan.Key{Frontend: at(frontends[name])}); (v != nil) != (name != "bad") {
			t.Errorf("%s is programmed as %v", name, v)
		}
	}
	w.Want("Service default/bad", "Node here")
	b.wantFailing("default/bad")
	if p := b.progress(); !strings.Contains(p.node, "panic: broken on purpose") {
		t.Errorf("progress %+v", p)
	}
	retry := func() {
		for _, f := range b.failing {
			f.next = time.Now()
		}
		b.retry(t.Context())
	}
	retry()
	w.Want("Service default/bad", "Node here")
	if got := w.Events(); !slices.Equal(got, []string{"Node here Panicked", "Node here Panicked", "Service default/bad Panicked"}) { // of the batch, and of its parts
		t.Errorf("events %q", got)
	}
	plane.at.Store(nil)
	plane.sources.Store(false)
	retry()
	if v := b.plane.Programmed(plan.Key{Frontend: broken}); v == nil {
		t.Error("the frontend is not programmed after the plane was mended")
	}
	w.Want()
	b.wantFailing()
}

// predecessor is a data plane with the state of an earlier agent, until it is removed.
type predecessor struct {
	dataplane.Plane
	left    plan.Frontend
	removed bool
}

func (p *predecessor) State(context.Context) (*plan.State, error) {
	state := &plan.State{Servers: map[plan.Key]*plan.VirtualServer{}}
	if key := (plan.Key{Frontend: p.left}); !p.removed {
		state.Servers[key] = &plan.VirtualServer{Key: key}
	}
	return state, nil
}

func (p *predecessor) Apply(ctx context.Context, changed plan.Changes) []dataplane.Failure {
	for i := range changed.Frontends {
		p.removed = p.removed || changed.Frontends[i].Frontend == p.left && changed.Frontends[i].Empty()
	}
	return p.Plane.Apply(ctx, changed)
}

// TestStateOfAServiceThatPanicsAtTheStartStays starts an agent that cannot plan a service, which an earlier agent has
// programmed. The state in force stays until the service can be planned.
func TestStateOfAServiceThatPanicsAtTheStartStays(t *testing.T) {
	b := newUserspaceBench(t)
	w := guardtest.New(t)
	b.guard = w.Guard
	bad, left := freeAt(t, "127.101.7.31"), freeAt(t, "127.101.7.32")
	plane := &predecessor{Plane: b.plane, left: at(left)}
	b.plane = plane
	b.SetLive()
	w.BreakName("bad", stepPlan)
	b.change(webService("bad", 1, bad))
	b.sync(t.Context())
	if plane.removed {
		t.Error("state in force was removed although a service is not planned")
	}
	w.Mend()
	b.change(webService("bad", 2, bad))
	b.sync(t.Context())
	if !plane.removed {
		t.Error("state of no service is still in force")
	}
}

package dataplanetest

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// Batches checks that the plan is in force after any batch of changes: services are added, changed
// and removed, several in one batch, and take over each other's frontends. It reads the plane back
// after each batch.
func Batches(t *testing.T, rig Rig) {
	frontends := someFrontends(t, rig)
	rapid.Check(t, func(t *rapid.T) {
		b := batches{t: t, plane: rig.Plane(), table: plan.NewTable(), frontends: frontends, schedulers: rig.Traits().Schedulers}
		b.clear()
		b.table.SetSources(rig.Sources())
		for range rapid.IntRange(1, 6).Draw(t, "batches") {
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				b.change()
			}
			b.program()
		}
		b.clear()
	})
}

// frontend is a frontend with the addresses that may be its backends.
type frontend struct {
	plan.Frontend
	backends []netip.AddrPort
}

func someFrontends(t testing.TB, rig Rig) []frontend {
	var out []frontend
	add := func(p plan.Protocol, v6 bool) {
		f := frontend{Frontend: plan.Frontend{Addr: rig.Frontend(t, plan.ClusterIP, p, v6), Protocol: p}}
		pods := rig.Sources().Pods
		i := slices.IndexFunc(pods, func(p netip.Prefix) bool { return p.Addr().Is6() == v6 })
		addr := pods[i].Addr()
		for range 4 {
			f.backends = append(f.backends, netip.AddrPortFrom(addr, 8080))
			if next := addr.Next(); pods[i].Contains(next) {
				addr = next
			}
		}
		out = append(out, f)
	}
	add(plan.TCP, false)
	add(plan.TCP, false)
	add(plan.UDP, false)
	if rig.Machine().IPv6 {
		add(plan.TCP, true)
	}
	return out
}

// batches is one run of random changes.
type batches struct {
	t          *rapid.T
	plane      dataplane.Plane
	table      *plan.Table
	frontends  []frontend
	schedulers []plan.Scheduler
}

// change draws a new plan for a service, which may be empty.
func (b *batches) change() {
	name := object.Name{Namespace: "default", Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(b.t, "service")}
	var servers []*plan.VirtualServer
	for _, f := range b.frontends {
		if rapid.Bool().Draw(b.t, "claims") {
			servers = append(servers, b.servers(name, f)...)
		}
	}
	b.table.Set(name, rapid.Int64Range(1, 2).Draw(b.t, "created"), servers)
}

// servers draws the virtual servers of a service at a frontend: one for all clients, or one for
// each audience.
func (b *batches) servers(name object.Name, f frontend) []*plan.VirtualServer {
	attrs := plan.Attributes{
		Service:    name,
		Exposure:   plan.LoadBalancerIP,
		Scheduler:  rapid.SampledFrom(b.schedulers).Draw(b.t, "scheduler"),
		Affinity:   rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(b.t, "affinity"),
		Drain:      rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(b.t, "drain"),
		Masquerade: rapid.SampledFrom([]plan.Masquerade{plan.MasqueradeAlways, plan.MasqueradeOutside}).Draw(b.t, "masquerade"),
	}
	audiences := []plan.Audience{plan.AnyClient}
	if rapid.Bool().Draw(b.t, "by audience") {
		audiences = []plan.Audience{plan.Internal, plan.External}
		attrs.WithoutBackends = plan.Drop
	}
	var out []*plan.VirtualServer
	for _, a := range audiences {
		out = append(out, &plan.VirtualServer{
			Key: plan.Key{Frontend: f.Frontend, Audience: a}, Attributes: attrs, Reals: b.reals(f.backends),
		})
	}
	return out
}

func (b *batches) reals(from []netip.AddrPort) []plan.RealServer {
	var out []plan.RealServer
	for _, addr := range slices.Compact(slices.Clone(from)) {
		if rapid.Bool().Draw(b.t, "backend") {
			out = append(out, plan.RealServer{Addr: addr, Weight: uint32(rapid.IntRange(0, 2).Draw(b.t, "weight"))})
		}
	}
	return out
}

// program puts a batch in force and compares the plane with the plan.
func (b *batches) program() {
	changed := b.table.Changes()
	for _, f := range dataplane.Reconcile(context.Background(), b.plane, changed) {
		b.t.Fatalf("%s: %v (%s)", f.Frontend, f.Err, f.Remedy)
	}
	have, err := b.plane.State(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	want := b.table.State()
	if differ := plan.Diff(have, want); len(differ) > 0 {
		b.t.Fatalf("after the changes %v, these are missing: %v", changed, differ)
	}
	for key, v := range want.Servers {
		if now := b.plane.Programmed(key); now == nil || !now.Equal(v) {
			b.t.Fatalf("after the changes %v, the record of %s is %v, and the plan is %v", changed, key, now, v)
		}
	}
}

// clear removes all servers from the plane.
func (b *batches) clear() {
	have, err := b.plane.State(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	nothing := &plan.State{Sources: have.Sources}
	if failures := dataplane.Reconcile(context.Background(), b.plane, plan.Changed(have, nothing)); len(failures) > 0 {
		b.t.Fatal(failures)
	}
}

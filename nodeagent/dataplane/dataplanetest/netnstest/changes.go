package netnstest

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// Server returns a virtual server for TCP with backends of weight 1 and a drain time of an hour.
func Server(at netip.AddrPort, reals ...netip.AddrPort) *plan.VirtualServer {
	v := &plan.VirtualServer{
		Key:        plan.Key{Frontend: plan.Frontend{Addr: at, Protocol: plan.TCP}},
		Attributes: plan.Attributes{Scheduler: plan.RoundRobin, Drain: time.Hour, Masquerade: plan.MasqueradeAlways},
	}
	for _, r := range reals {
		v.Reals = append(v.Reals, plan.RealServer{Addr: r, Weight: 1})
	}
	return v
}

// Servers returns n virtual servers with backends of their own, as planned for cluster IPs.
func Servers(n, behind int) []*plan.VirtualServer {
	var out []*plan.VirtualServer
	for i := range n {
		v := Server(netip.AddrPortFrom(Nth(Virtual[0], uint32(i)), 80))
		v.Masquerade = plan.MasqueradeOutside
		v.Service = object.Name{Namespace: "default", Name: fmt.Sprintf("service-%d", i)}
		for j := range behind {
			at := uint32(i*behind + j)
			v.Reals = append(v.Reals, plan.RealServer{Addr: netip.AddrPortFrom(Nth(Pods[0], at%65536), uint16(8000+at/65536)), Weight: 1})
		}
		slices.SortFunc(v.Reals, func(a, b plan.RealServer) int { return a.Addr.Compare(b.Addr) })
		out = append(out, v)
	}
	return out
}

// Program makes a plane forward servers, and no others at their frontends. The test fails if one of
// the frontends fails.
func Program(t testing.TB, p dataplane.Plane, servers ...*plan.VirtualServer) {
	t.Helper()
	Apply(t, p, dataplanetest.Changes(servers...))
}

// SetSources sets the sources of a plane.
func SetSources(t testing.TB, p dataplane.Plane, s plan.Sources) {
	t.Helper()
	Apply(t, p, plan.Changes{Sources: &s})
}

// Apply makes changes. The test fails if one of them fails.
func Apply(t testing.TB, p dataplane.Plane, changed plan.Changes) {
	t.Helper()
	for _, f := range p.Apply(t.Context(), changed) {
		t.Fatalf("%s: %v (%s)", f.Frontend, f.Err, f.Remedy)
	}
}

// State returns the state in force.
func State(t testing.TB, p dataplane.Plane) *plan.State {
	t.Helper()
	s, err := p.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

package netnstest

import (
	"net/netip"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// Server is a virtual server for TCP with backends of weight 1, which drain for
// an hour.
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

// Add is the step that adds a server.
func Add(v *plan.VirtualServer) plan.Step {
	return plan.Step{Op: plan.AddServer, Key: v.Key, Server: v}
}

// Apply carries out steps, none of which may fail.
func Apply(t testing.TB, p dataplane.Plane, steps ...plan.Step) {
	t.Helper()
	for _, f := range p.Apply(t.Context(), steps) {
		t.Fatalf("%s: %v (%s)", f.Step, f.Err, f.Remedy)
	}
}

// State is what is in force.
func State(t testing.TB, p dataplane.Plane) *plan.State {
	t.Helper()
	s, err := p.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

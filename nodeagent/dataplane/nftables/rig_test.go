package nftables_test

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

func TestConformance(t *testing.T) {
	kerneltest.Need(t)
	rig := netnstest.New(t, netnstest.Options{
		Traits: dataplanetest.Nftables,
		Open: func(namespace, journal string) (netnstest.Plane, error) {
			return open(namespace, journal, kittest.Logger(t))
		},
	})
	dataplanetest.Run(t, func(*testing.T) dataplanetest.Rig { return rig })
}

func open(namespace, journal string, log *slog.Logger) (*kernel.Plane, error) {
	return nftables.New(kernel.Options{Log: log, Journal: journal, ServiceCIDRs: netnstest.Virtual[:], Namespace: namespace, Count: true})
}

// start makes a network and a plane that knows the sources.
func start(t testing.TB) (*netnstest.Network, *kernel.Plane) {
	t.Helper()
	kerneltest.Need(t)
	n := netnstest.NewNetwork(t)
	p := openPlane(t, n)
	sources := n.Sources()
	apply(t, p, plan.Step{Op: plan.SetSources, Sources: &sources})
	return n, p
}

func openPlane(t testing.TB, n *netnstest.Network) *kernel.Plane {
	t.Helper()
	p, err := open(n.Node.Path, n.Journal, kittest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

func tcp(at netip.AddrPort, reals ...netip.AddrPort) *plan.VirtualServer {
	v := &plan.VirtualServer{
		Key:        plan.Key{Frontend: plan.Frontend{Addr: at, Protocol: plan.TCP}},
		Attributes: plan.Attributes{Scheduler: plan.RoundRobin, Drain: time.Hour, Masquerade: plan.MasqueradeAlways},
	}
	for _, r := range reals {
		v.Reals = append(v.Reals, plan.RealServer{Addr: r, Weight: 1})
	}
	return v
}

func add(v *plan.VirtualServer) plan.Step {
	return plan.Step{Op: plan.AddServer, Key: v.Key, Server: v}
}

func apply(t testing.TB, p *kernel.Plane, steps ...plan.Step) {
	t.Helper()
	for _, f := range p.Apply(t.Context(), steps) {
		t.Fatalf("%s: %v (%s)", f.Step, f.Err, f.Remedy)
	}
}

func state(t testing.TB, p *kernel.Plane) *plan.State {
	t.Helper()
	s, err := p.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

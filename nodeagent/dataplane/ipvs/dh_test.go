package ipvs_test

import (
	"testing"

	moby "github.com/moby/ipvs"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// TestHashedBackendDrift checks that the plane notices if another program makes another backend of a
// dh server the heaviest, and reverts it.
func TestHashedBackendDrift(t *testing.T) {
	n, p := start(t)
	want, programmed := hashedServer(t, n, p)
	edit(t, n, func(_ *moby.Service, backends []*moby.Destination) {
		backends[0].Weight, backends[1].Weight = backends[1].Weight, backends[0].Weight
	})
	restores(t, n, p, want, programmed)
}

// TestHashedBackendOfEarlierAgent checks that an agent takes over a server with the kernel's own dh,
// which earlier agents used.
func TestHashedBackendOfEarlierAgent(t *testing.T) {
	n, p := start(t)
	want, programmed := hashedServer(t, n, p)
	edit(t, n, func(s *moby.Service, backends []*moby.Destination) {
		s.SchedName = moby.DestinationHashing
		backends[0].Weight, backends[1].Weight = 1, 1
	})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	restores(t, n, openPlane(t, n), want, programmed)
}

// hashedServer programs a dh server with two backends. It returns the plane's state and the kernel's
// table.
func hashedServer(t *testing.T, n *netnstest.Network, p *kernel.Plane) (*plan.State, string) {
	t.Helper()
	v := netnstest.Server(fresh(t, n), echo(t, n), echo(t, n))
	v.Scheduler = plan.DestinationHash
	netnstest.Program(t, p, v)
	return netnstest.State(t, p), table(t, n)
}

// restores checks that the plane finds the difference from a state, and restores the kernel's table.
func restores(t *testing.T, n *netnstest.Network, p *kernel.Plane, want *plan.State, programmed string) {
	t.Helper()
	if table(t, n) == programmed {
		t.Fatal("the kernel's table has not changed")
	}
	changed := plan.Changed(netnstest.State(t, p), want)
	if len(changed.Frontends) != 1 {
		t.Errorf("the audit finds %v", changed)
	}
	netnstest.Apply(t, p, changed)
	if now := table(t, n); now != programmed {
		t.Errorf("after the repair:\n%s, before:\n%s", now, programmed)
	}
	for key := range want.Servers {
		if _, err := seen(t, n, dataplanetest.Inside, key.Addr); err != nil {
			t.Error(err)
		}
	}
}

// edit changes the only server and its two backends with the library's handle.
func edit(t *testing.T, n *netnstest.Network, change func(*moby.Service, []*moby.Destination)) {
	t.Helper()
	h, err := moby.New(n.Node.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	services, err := h.GetServices()
	if err != nil || len(services) != 1 {
		t.Fatal(len(services), err)
	}
	service := services[0]
	backends, err := h.GetDestinations(service)
	if err != nil || len(backends) != 2 {
		t.Fatal(len(backends), err)
	}
	change(service, backends)
	if err := h.UpdateService(service); err != nil {
		t.Fatal(err)
	}
	for _, b := range backends {
		if err := h.UpdateDestination(service, b); err != nil {
			t.Fatal(err)
		}
	}
}

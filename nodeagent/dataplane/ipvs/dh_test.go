package ipvs_test

import (
	"testing"

	moby "github.com/moby/ipvs"

	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/plan"
)

// TestHashedBackendDrift checks that the plane notices if another program makes another backend of a
// dh server the preferred one, and reverts it.
func TestHashedBackendDrift(t *testing.T) {
	n, p := start(t)
	v := netnstest.Server(fresh(t, n), echo(t, n), echo(t, n))
	v.Scheduler = plan.DestinationHash
	netnstest.Program(t, p, v)
	want, programmed := netnstest.State(t, p), table(t, n)
	swapWeights(t, n)
	if table(t, n) == programmed {
		t.Fatal("the weights are the same")
	}
	changed := plan.Changed(netnstest.State(t, p), want)
	if len(changed.Frontends) != 1 {
		t.Errorf("the audit finds %v", changed)
	}
	netnstest.Apply(t, p, changed)
	if now := table(t, n); now != programmed {
		t.Errorf("after the repair:\n%s, before:\n%s", now, programmed)
	}
}

// swapWeights exchanges the weights of the two backends of the only server.
func swapWeights(t *testing.T, n *netnstest.Network) {
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
	backends, err := h.GetDestinations(services[0])
	if err != nil || len(backends) != 2 {
		t.Fatal(len(backends), err)
	}
	backends[0].Weight, backends[1].Weight = backends[1].Weight, backends[0].Weight
	for _, b := range backends {
		if err := h.UpdateDestination(services[0], b); err != nil {
			t.Fatal(err)
		}
	}
}

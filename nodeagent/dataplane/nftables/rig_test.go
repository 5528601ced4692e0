package nftables_test

import (
	"log/slog"
	"testing"

	google "github.com/google/nftables"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

func TestConformance(t *testing.T) {
	rig := newRig(t)
	dataplanetest.Run(t, func(*testing.T) dataplanetest.Rig { return rig })
}

// TestInForceIsPlanned checks that the plan is in force after any batch of changes.
func TestInForceIsPlanned(t *testing.T) { dataplanetest.Batches(t, newRig(t)) }

func newRig(t *testing.T) *netnstest.Rig {
	kerneltest.Need(t)
	return netnstest.New(t, netnstest.Options{
		Traits: dataplanetest.Nftables,
		Open: func(namespace, journal string) (netnstest.Plane, error) {
			return open(namespace, journal, kittest.Logger(t))
		},
		Alter: alter,
	})
}

func open(namespace, journal string, log *slog.Logger) (*kernel.Plane, error) {
	return nftables.New(kernel.Options{Log: log, Journal: journal, ServiceCIDRs: netnstest.Virtual[:], Namespace: namespace, Count: true})
}

// alter removes all elements of the balancer's sets.
func alter(t testing.TB, n *netnstest.Network, _ plan.Frontend) {
	t.Helper()
	err := n.Node.Do(func() error {
		conn, err := google.New()
		if err != nil {
			return err
		}
		for _, family := range []google.TableFamily{google.TableFamilyIPv4, google.TableFamilyIPv6} {
			sets, err := conn.GetSets(&google.Table{Name: "portolan-balancer", Family: family})
			if err != nil {
				return err
			}
			for _, s := range sets {
				conn.FlushSet(s)
			}
		}
		return conn.Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// openQuietly opens a plane in a process whose output is not a test's.
func openQuietly(namespace, journal string) (netnstest.Plane, error) {
	return open(namespace, journal, slog.New(slog.DiscardHandler))
}

// start makes a network and a plane with its sources set.
func start(t testing.TB) (*netnstest.Network, *kernel.Plane) {
	t.Helper()
	kerneltest.Need(t)
	n := netnstest.NewNetwork(t)
	p := openPlane(t, n)
	sources := n.Sources()
	netnstest.SetSources(t, p, sources)
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

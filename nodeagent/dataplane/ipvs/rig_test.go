package ipvs_test

import (
	"log/slog"
	"net/netip"
	"testing"

	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/kernel"
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
		Traits: dataplanetest.IPVS,
		Open: func(namespace, journal string) (netnstest.Plane, error) {
			return open(namespace, journal, kittest.Logger(t))
		},
		Alter:  alter,
		Occupy: occupy, Emulated: true,
	})
}

func open(namespace, journal string, log *slog.Logger) (*kernel.Plane, error) {
	return ipvs.New(kernel.Options{Log: log, Journal: journal, ServiceCIDRs: netnstest.Virtual[:], Namespace: namespace})
}

// openQuietly opens a plane in a process whose output is not a test's.
func openQuietly(namespace, journal string) (netnstest.Plane, error) {
	return open(namespace, journal, slog.New(slog.DiscardHandler))
}

// alter makes the backends of a server ones that the kernel sends packets to unchanged, which they do not take.
func alter(t testing.TB, n *netnstest.Network, at plan.Frontend) {
	t.Helper()
	h, err := moby.New(n.Node.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	s := &moby.Service{
		Address: at.Addr.Addr().AsSlice(), Port: at.Addr.Port(), Protocol: uint16(at.Protocol), AddressFamily: unix.AF_INET,
	}
	if at.Addr.Addr().Is6() {
		s.AddressFamily = unix.AF_INET6
	}
	list, err := h.GetDestinations(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		d.ConnectionFlags = moby.ConnectionFlagDirectRoute
		if err := h.UpdateDestination(s, d); err != nil {
			t.Fatal(err)
		}
	}
}

// occupy makes a virtual server that is in no journal.
func occupy(t testing.TB, n *netnstest.Network, at plan.Frontend) {
	t.Helper()
	v := &plan.VirtualServer{Key: plan.Key{Frontend: at}, Attributes: plan.Attributes{Scheduler: plan.RoundRobin}}
	v.Reals = []plan.RealServer{{Addr: netip.MustParseAddrPort("198.51.100.3:80"), Weight: 1}}
	if err := newFloor(t, n.Node.Path, []*plan.VirtualServer{v}, 1).send(); err != nil {
		t.Fatal(err)
	}
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

package kernel_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// ranges are the ranges of virtual addresses.
var ranges = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}

// fakeBalancer is a balancer that forwards nothing. The test controls the results of its operations.
type fakeBalancer struct {
	refuse  error // the error of adding a server; nil: success
	servers map[plan.Frontend]kernel.Server
	deleted int
	// together is the preferred number of operations in a call, and largest the largest number in a
	// call.
	together, largest int
	looks             int // number of calls of Backends
	closed            bool
}

func (b *fakeBalancer) Name() string { return "pretence" }
func (b *fakeBalancer) Traits() kernel.Traits {
	return kernel.Traits{Refuses: true, BatchSize: b.together}
}
func (b *fakeBalancer) ApplySettings(kernelmode.Timeouts) []kernelmode.Setting { return nil }
func (b *fakeBalancer) MissingScheduler(plan.Scheduler) (string, bool)         { return "", false }
func (b *fakeBalancer) SetSources(plan.Sources) error                          { return nil }
func (b *fakeBalancer) Own() ([]kernel.ID, error)                              { return nil, nil }
func (b *fakeBalancer) Remedy(error) string                                    { return "" }
func (b *fakeBalancer) Remove() error                                          { return nil }
func (b *fakeBalancer) Close()                                                 { b.closed = true }
func (b *fakeBalancer) Settings(*plan.VirtualServer) kernel.Settings {
	return kernel.Settings{Scheduler: "rr"}
}

func (b *fakeBalancer) Apply(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	b.largest = max(b.largest, len(ops))
	for i, o := range ops {
		s, there := b.servers[o.ID.Frontend]
		switch {
		case o.Kind == kernel.AddServer && b.refuse != nil:
			errs[i] = b.refuse
			continue
		case o.Kind == kernel.DeleteServer:
			b.deleted++
			delete(b.servers, o.ID.Frontend)
			continue
		case o.Kind == kernel.AddServer:
			s.Settings = o.Settings
		case !there:
			errs[i] = kernel.ErrGone
			continue
		case o.Kind == kernel.AddBackend:
			s.Backends = append(s.Backends, kernel.Backend{Addr: o.Backend, Weight: o.Weight})
		}
		b.servers[o.ID.Frontend] = s
	}
	return errs
}

func (b *fakeBalancer) Read([]kernel.ID) (map[plan.Frontend]kernel.Server, error) {
	return maps.Clone(b.servers), nil
}

func (b *fakeBalancer) Backends(ids ...kernel.ID) (map[plan.Frontend][]kernel.Backend, error) {
	b.looks++
	out := map[plan.Frontend][]kernel.Backend{}
	for _, id := range ids {
		out[id.Frontend] = b.servers[id.Frontend].Backends
	}
	return out, nil
}

func (b *fakeBalancer) Traffic([]kernel.ID) (map[plan.Frontend]kernelmode.Traffic, error) {
	return nil, nil
}

// newPlane returns a plane around a fake balancer in a namespace of its own.
func newPlane(t *testing.T, tracking kernelmode.Tracking) (*kernel.Plane, *fakeBalancer, *topology.Namespace, string) {
	t.Helper()
	kerneltest.Need(t)
	ns, journal := topology.New(t, "node"), filepath.Join(t.TempDir(), "journal")
	p, b := planeIn(t, ns, kernel.Options{Journal: journal, Tracking: tracking})
	return p, b, ns, journal
}

// planeIn returns a plane around a fake balancer in a namespace.
func planeIn(t *testing.T, ns *topology.Namespace, o kernel.Options) (*kernel.Plane, *fakeBalancer) {
	t.Helper()
	b := &fakeBalancer{servers: map[plan.Frontend]kernel.Server{}, together: 10}
	o.Log, o.ServiceCIDRs, o.Namespace = kittest.Logger(t), ranges, ns.Path
	p, err := kernel.New(o, func() (kernel.Balancer, error) { return b, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p, b
}

func server(n int) *plan.VirtualServer {
	return &plan.VirtualServer{
		Key: plan.Key{Frontend: frontend(n)}, Attributes: plan.Attributes{Scheduler: plan.RoundRobin},
		Reals: []plan.RealServer{{Addr: netip.MustParseAddrPort("10.64.0.1:8080"), Weight: 1}},
	}
}

// claims returns the number of frontends in a journal.
func claims(t *testing.T, ns *topology.Namespace, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	twin := filepath.Join(t.TempDir(), "journal") // a copy, because opening a journal writes it
	if err := os.WriteFile(twin, text, 0o600); err != nil {
		t.Fatal(err)
	}
	n := 0
	err = ns.Do(func() error {
		j, err := kernel.OpenJournal(twin)
		if err != nil {
			return err
		}
		defer j.Close()
		return j.Each(func(key, _ string) error {
			if key != "sources" {
				n++
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestClaimsThatAreGivenBack checks that a server that the kernel refuses leaves neither a journal
// entry nor a route. A server that may exist stays claimed until that is known.
func TestClaimsThatAreGivenBack(t *testing.T) {
	p, b, ns, journal := newPlane(t, kernelmode.Tracking{})
	v := server(1)
	add, gone := dataplanetest.Changes(v), dataplanetest.Removal(v.Frontend)
	try := func(changed plan.Changes, refuse error, failures, claimed int) {
		t.Helper()
		b.refuse = refuse
		if failed := p.Apply(t.Context(), changed); len(failed) != failures || failures > 0 && !errors.Is(failed[0].Err, refuse) {
			t.Errorf("%v: failures %+v", refuse, failed)
		}
		if n := claims(t, ns, journal); n != claimed {
			t.Errorf("%v: %d claims, want %d", refuse, n, claimed)
		}
		if there := routes(t, ns).Has(netip.PrefixFrom(v.Addr.Addr(), 32)); there != (claimed > 0) {
			t.Errorf("%v: there is a route: %t", refuse, there)
		}
	}
	try(add, unix.ENOMEM, 1, 0)
	try(add, kernel.ErrForeign, 1, 0)
	try(add, kernel.ErrUnknown, 1, 1)
	try(add, kernel.ErrForeign, 1, 0)
	try(add, kernel.ErrUnknown, 1, 1)
	if s, err := p.State(t.Context()); err != nil || len(s.Servers) > 0 {
		t.Errorf("state %v, %v", s, err)
	}
	try(add, nil, 0, 1)
	try(gone, nil, 0, 0)
	try(add, kernel.ErrUnknown, 1, 1)
	before := b.deleted
	try(gone, nil, 0, 0)
	if b.deleted != before+1 {
		t.Errorf("%d servers were deleted, want the one that may be there", b.deleted-before)
	}
}

// routes reads the plane's routes.
func routes(t *testing.T, ns *topology.Namespace) *host.Routes {
	t.Helper()
	var r *host.Routes
	err := ns.Do(func() (err error) {
		r, err = host.NewRoutes(host.PlaneRoutes)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// TestLostRoutesComeBack checks that a route that another program removes is restored at once,
// without an audit, and that none is restored after a cleanup.
func TestLostRoutesComeBack(t *testing.T) {
	p, _, ns, _ := newPlane(t, kernelmode.Tracking{})
	v := server(1)
	if failed := p.Apply(t.Context(), dataplanetest.Changes(v)); len(failed) > 0 {
		t.Fatal(failed)
	}
	all, r := append(ranges[:len(ranges):len(ranges)], netip.PrefixFrom(v.Addr.Addr(), 32)), routes(t, ns)
	for range 2 {
		for _, prefix := range all {
			if !r.Has(prefix) {
				t.Fatalf("no route to %s to begin with", prefix)
			}
			if err := r.Delete(prefix); err != nil {
				t.Fatal(err)
			}
		}
		kittest.Eventually(t, "the routes", func() error {
			if err := r.Read(); err != nil {
				return err
			}
			for _, prefix := range all {
				if !r.Has(prefix) {
					return fmt.Errorf("no route to %s", prefix)
				}
			}
			return nil
		})
	}
	if err := p.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Read(); err != nil || len(r.All()) > 0 {
		t.Errorf("left behind: %v, %v", r.All(), err)
	}
}

// TestOperationsComeInPortions checks that a balancer gets about its preferred number of operations
// at once, when servers are added and when they are removed.
func TestOperationsComeInPortions(t *testing.T) {
	p, b, _, _ := newPlane(t, kernelmode.Tracking{})
	const servers = 50
	var added []*plan.VirtualServer
	var frontends []plan.Frontend
	for n := range servers {
		v := server(n)
		added, frontends = append(added, v), append(frontends, v.Frontend)
	}
	for i, changed := range []plan.Changes{dataplanetest.Changes(added...), dataplanetest.Removal(frontends...)} {
		b.largest = 0
		if failed := p.Apply(t.Context(), changed); len(failed) > 0 {
			t.Fatal(failed)
		}
		// The operations on a server and its backend are not split.
		if b.largest < b.together || b.largest > b.together+1 {
			t.Errorf("batch %d: up to %d operations at once, want %d or one more", i, b.largest, b.together)
		}
		if want := servers * (1 - i); len(b.servers) != want {
			t.Errorf("batch %d: %d servers, want %d", i, len(b.servers), want)
		}
	}
}

// TestConnectionsAreReadAtOnce checks that the balancer is asked for the connections of all servers
// at once, because it may have to read all flows of the kernel.
func TestConnectionsAreReadAtOnce(t *testing.T) {
	p, b, _, _ := newPlane(t, kernelmode.Tracking{})
	var servers []*plan.VirtualServer
	var keys []plan.Key
	for n := range 20 {
		v := server(n)
		servers, keys = append(servers, v), append(keys, v.Key)
	}
	if failed := p.Apply(t.Context(), dataplanetest.Changes(servers...)); len(failed) > 0 {
		t.Fatal(failed)
	}
	for n, key := range keys {
		s := b.servers[key.Frontend]
		s.Backends[0].Connections = uint32(n)
		b.servers[key.Frontend] = s
	}
	b.looks = 0
	got := p.Connections(append(keys, server(99).Key)...) // the last one does not exist
	if b.looks != 1 || len(got) != len(keys) {
		t.Errorf("%d servers after %d looks, want %d after one", len(got), b.looks, len(keys))
	}
	for n, key := range keys {
		if have := got[key][server(n).Reals[0].Addr]; have != uint32(n) {
			t.Errorf("server %d has %d connections, want %d", n, have, n)
		}
	}
}

// TestNoRouteToAddressesOfNodes checks that only served virtual addresses get a route of their own.
// Node ports get none, and neither does an address that the node had when the server was added,
// even after the node has lost it.
func TestNoRouteToAddressesOfNodes(t *testing.T) {
	p, _, ns, _ := newPlane(t, kernelmode.Tracking{})
	lo, r := link(t, ns), routes(t, ns)
	lost := server(1)
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: lost.Addr.Addr().AsSlice(), Mask: net.CIDRMask(32, 32)}}
	change := func(fn func(netlink.Link, *netlink.Addr) error) {
		t.Helper()
		if err := host.Within(ns.Path, func() error { return fn(lo, addr) }); err != nil {
			t.Fatal(err)
		}
	}
	port := server(2)
	port.Exposure = plan.NodePort
	apply := func(changed plan.Changes) {
		t.Helper()
		if failed := p.Apply(t.Context(), changed); len(failed) > 0 {
			t.Fatal(failed)
		}
		if err := r.Read(); err != nil {
			t.Fatal(err)
		}
		for _, v := range []*plan.VirtualServer{lost, port} {
			if slices.Contains(r.All(), netip.PrefixFrom(v.Addr.Addr(), 32)) {
				t.Errorf("after %v: there is a route to %s", changed, v.Addr.Addr())
			}
		}
	}
	change(netlink.AddrAdd)
	apply(dataplanetest.Changes(lost, port))
	change(netlink.AddrDel)
	apply(dataplanetest.Removal(lost.Frontend, port.Frontend))
}

// TestPlaneThatCannotBeOpenedSaysWhy checks that the balancer's error is returned.
func TestPlaneThatCannotBeOpenedSaysWhy(t *testing.T) {
	kerneltest.Need(t)
	ns, broken := topology.New(t, "node"), errors.New("no balancer")
	_, err := kernel.New(kernel.Options{Namespace: ns.Path}, func() (kernel.Balancer, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestPlaneThatCannotBeOpenedFreesWhatItHas checks that the balancer is closed if the journal
// cannot be opened.
func TestPlaneThatCannotBeOpenedFreesWhatItHas(t *testing.T) {
	kerneltest.Need(t)
	ns, b := topology.New(t, "node"), &fakeBalancer{}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := kernel.Options{Namespace: ns.Path, Journal: filepath.Join(file, "journal")}
	if _, err := kernel.New(o, func() (kernel.Balancer, error) { return b, nil }); err == nil {
		t.Fatal("a journal below a file was opened")
	}
	if !b.closed {
		t.Error("the balancer is still open")
	}
}

// TestTrackingIsSet checks that connection tracking is set as configured, and that larger limits
// stay.
func TestTrackingIsSet(t *testing.T) {
	p, _, ns, _ := newPlane(t, kernelmode.Tracking{MaxPerCore: 1, Min: 1, Established: 4000 * time.Second, CloseWait: 77 * time.Second, Liberal: true})
	told := map[string]kernelmode.Setting{}
	for _, s := range p.Settings() {
		told[s.Name] = s
		if s.Err != nil {
			t.Error(s)
		}
	}
	for name, want := range map[string]string{"tcp_timeout_established": "4000", "tcp_timeout_close_wait": "77", "tcp_be_liberal": "1"} {
		var have []byte
		err := ns.Do(func() (err error) {
			have, err = os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_" + name)
			return err
		})
		if err != nil || strings.TrimSpace(string(have)) != want {
			t.Errorf("%s is %q, %v", name, have, err)
		}
		if s := told["net.netfilter.nf_conntrack_"+name]; !strings.Contains(s.String(), " set to "+want) {
			t.Errorf("told: %s", s)
		}
	}
	for _, name := range []string{"max", "buckets"} {
		s, ok := told["net.netfilter.nf_conntrack_"+name]
		if !ok || s.String() != s.Name+" is "+s.Before {
			t.Errorf("told: %s", s)
		}
	}
}

// TestTrackingIsLeftAlone checks that a zero leaves the kernel's value.
func TestTrackingIsLeftAlone(t *testing.T) {
	p, _, _, _ := newPlane(t, kernelmode.Tracking{Min: 1})
	for _, s := range p.Settings() {
		if strings.HasPrefix(s.Name, "net.netfilter.") {
			t.Error(s)
		}
	}
}

func link(t *testing.T, ns *topology.Namespace) (lo netlink.Link) {
	t.Helper()
	err := host.Within(ns.Path, func() (err error) {
		lo, err = netlink.LinkByName("lo")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lo
}

func frontend(n int) plan.Frontend {
	return plan.Frontend{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)}), 80), Protocol: plan.TCP}
}

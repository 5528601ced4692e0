package kernel_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// simpleHost is a host in memory. It stores only the elements of the packet filter.
type simpleHost struct{ elements map[packetfilter.Element]bool }

func (h *simpleHost) Routes() (kernel.RouteTable, error) { return simpleRoutes{}, nil }
func (h *simpleHost) Flows() (kernel.FlowTable, error)   { return simpleFlows{}, nil }
func (h *simpleHost) Setting(string) (string, error)     { return "", fs.ErrNotExist }
func (h *simpleHost) Set(string, string) error           { return nil }
func (h *simpleHost) Advice() []kernelmode.Setting       { return nil }

func (h *simpleHost) Filter(_, _ []netip.Prefix) (kernel.PacketFilter, error) {
	return simpleFilter{h}, nil
}

func (h *simpleHost) Remains() (*packetfilter.Remains, error) { return &packetfilter.Remains{}, nil }

type simpleRoutes struct{}

func (simpleRoutes) Read() error                                 { return nil }
func (simpleRoutes) Has(netip.Prefix) bool                       { return true }
func (simpleRoutes) All() []netip.Prefix                         { return nil }
func (simpleRoutes) Add(netip.Prefix) error                      { return nil }
func (simpleRoutes) Delete(netip.Prefix) error                   { return nil }
func (simpleRoutes) Addresses() (_ map[netip.Addr]bool, _ error) { return nil, nil }
func (simpleRoutes) Lost() <-chan struct{}                       { return nil }
func (simpleRoutes) Close()                                      {}

type simpleFlows struct{}

func (simpleFlows) Forget(_, _ []host.Flow) error { return nil }
func (simpleFlows) Close()                        {}

type simpleFilter struct{ *simpleHost }

func (simpleFilter) SetSources(_, _ []netip.Prefix) error { return nil }
func (simpleFilter) Install() error                       { return nil }
func (simpleFilter) Installed() bool                      { return true }
func (simpleFilter) Read() (func() []string, error)       { return func() []string { return nil }, nil }
func (simpleFilter) Changed() <-chan struct{}             { return nil }
func (simpleFilter) Remove() error                        { return nil }
func (simpleFilter) Close() error                         { return nil }

func (f simpleFilter) Commit(c packetfilter.Change) error {
	for _, e := range c.Remove {
		delete(f.elements, e)
	}
	for _, e := range c.Add {
		f.elements[e] = true
	}
	return nil
}

// picky is a fake balancer that stores weights, records operations, and refuses the operations that
// a test selects.
type picky struct {
	fakeBalancer
	refuses func(kernel.Op) bool
	asked   []string
}

var errPicky = errors.New("refused")

func (b *picky) Apply(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	for i, o := range ops {
		if b.refuses != nil && b.refuses(o) {
			errs[i] = errPicky
			continue
		}
		b.asked = append(b.asked, fmt.Sprintf("%d %s %d", o.Kind, o.Backend, o.Weight))
		s := b.servers[o.ID.Frontend]
		at := slices.IndexFunc(s.Backends, func(k kernel.Backend) bool { return k.Addr == o.Backend })
		switch {
		case o.Kind == kernel.SetBackend && at >= 0:
			s.Backends[at].Weight = o.Weight
		case o.Kind == kernel.DeleteBackend && at >= 0:
			s.Backends = slices.Delete(s.Backends, at, at+1)
			b.servers[o.ID.Frontend] = s
		case o.Kind != kernel.SetBackend && o.Kind != kernel.DeleteBackend:
			errs[i] = b.fakeBalancer.Apply([]kernel.Op{o})[0]
		}
	}
	return errs
}

// life runs planes one after the other on one machine.
type life struct {
	t        *testing.T
	balancer *picky
	host     *simpleHost
	journal  string
	plane    *kernel.Plane
}

func newLife(t *testing.T) *life {
	l := &life{
		t: t, balancer: &picky{fakeBalancer: fakeBalancer{servers: map[plan.Frontend]kernel.Server{}, together: 10}},
		host: &simpleHost{map[packetfilter.Element]bool{}}, journal: filepath.Join(t.TempDir(), "journal"),
	}
	l.restart()
	t.Cleanup(func() { l.plane.Close() })
	return l
}

func (l *life) restart() {
	l.t.Helper()
	if l.plane != nil {
		if err := l.plane.Close(); err != nil {
			l.t.Fatal(err)
		}
	}
	var err error
	l.plane, err = kernel.NewOn(l.host, kernel.Options{Journal: l.journal, ServiceCIDRs: ranges},
		func() (kernel.Balancer, error) { return l.balancer, nil })
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) apply(failures int, changed plan.Changes) {
	l.t.Helper()
	if failed := l.plane.Apply(l.t.Context(), changed); len(failed) != failures {
		l.t.Fatalf("failures %+v, want %d", failed, failures)
	}
}

func backend(n int, weight uint32) plan.RealServer {
	return plan.RealServer{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 64, 0, byte(n)}), 8080), Weight: weight}
}

func draining(reals ...plan.RealServer) *plan.VirtualServer {
	v := server(1)
	v.Protocol, v.Drain, v.Reals = plan.TCP, time.Hour, reals
	return v
}

// TestNextProcessKnowsWhatDrains checks that draining backends are known after a restart. The
// kernel does not distinguish them from backends that are planned with weight 0.
func TestNextProcessKnowsWhatDrains(t *testing.T) {
	l := newLife(t)
	v := draining(backend(1, 1), backend(2, 0), backend(3, 1))
	l.apply(0, dataplanetest.Changes(v))
	for i := range l.balancer.servers[v.Frontend].Backends {
		l.balancer.servers[v.Frontend].Backends[i].Connections = 1
	}
	l.apply(0, dataplanetest.Changes(draining(v.Reals[:2]...)))
	l.restart()
	if got, want := l.plane.Programmed(v.Key), v.Reals[:2]; got == nil || !slices.Equal(got.Reals, want) {
		t.Errorf("in force is %v, want backends %v", got, want)
	}
	if n := len(l.balancer.servers[v.Frontend].Backends); n != 3 {
		t.Errorf("the kernel has %d backends, want the one that drains, too", n)
	}
}

// TestJournalSuitsTheReleaseBefore checks that the journal has no other keys than those that
// earlier releases know: the sources and the frontend. Such a release refuses to start with any
// other key.
func TestJournalSuitsTheReleaseBefore(t *testing.T) {
	l := newLife(t)
	v := draining(backend(1, 1), backend(2, 1))
	l.plane.Reach(5)
	l.apply(0, dataplanetest.Changes(v))
	l.balancer.servers[v.Frontend].Backends[0].Connections = 1
	changed := dataplanetest.Changes(draining(backend(2, 1)))
	changed.Sources = &plan.Sources{}
	l.apply(0, changed)
	l.restart()
	if l.plane.Reached() != 5 {
		t.Errorf("revision %d is known, want 5", l.plane.Reached())
	}
	j, err := kernel.OpenJournal(l.journal)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var keys []string
	err = j.Each(func(key, _ string) error {
		keys = append(keys, key)
		return nil
	})
	if err != nil || len(keys) != 2 || !slices.Contains(keys, "sources") {
		t.Errorf("keys %q, want the sources and the frontend; %v", keys, err)
	}
}

// TestWeightsAreRaisedBeforeOthersAreLowered checks that a server has a backend with weight all the
// time while two backends swap their weights.
func TestWeightsAreRaisedBeforeOthersAreLowered(t *testing.T) {
	l := newLife(t)
	v := draining(backend(1, 1), backend(2, 0))
	l.apply(0, dataplanetest.Changes(v))
	l.balancer.asked = nil
	l.apply(0, dataplanetest.Changes(draining(backend(1, 0), backend(2, 1))))
	want := []string{fmt.Sprintf("%d %s 1", kernel.SetBackend, backend(2, 1).Addr), fmt.Sprintf("%d %s 0", kernel.SetBackend, backend(1, 0).Addr)}
	if !slices.Equal(l.balancer.asked, want) {
		t.Errorf("asked for %q, want %q", l.balancer.asked, want)
	}
}

// TestBackendThatCannotBeDrainedIsInForce checks that a backend stays in force if its weight could
// not be set to 0, so that the change is tried again and its connections are kept.
func TestBackendThatCannotBeDrainedIsInForce(t *testing.T) {
	l := newLife(t)
	v := draining(backend(1, 1), backend(2, 1))
	l.apply(0, dataplanetest.Changes(v))
	l.balancer.refuses = func(o kernel.Op) bool { return o.Kind == kernel.SetBackend }
	l.apply(1, dataplanetest.Changes(draining(backend(2, 1))))
	if got := l.plane.Programmed(v.Key); got == nil || len(got.Reals) != 2 {
		t.Errorf("in force is %v, want both backends", got)
	}
}

// TestRemovalIsCompleted checks that the next process completes the removal of a server.
func TestRemovalIsCompleted(t *testing.T) {
	l := newLife(t)
	v := draining(backend(1, 1))
	l.apply(0, dataplanetest.Changes(v))
	l.balancer.refuses = func(kernel.Op) bool { return true }
	l.apply(1, dataplanetest.Removal(v.Frontend))
	if err := l.plane.Close(); err != nil { // its mirror of the kernel is not reliable after the refusals
		t.Fatal(err)
	}
	l.balancer.refuses = nil
	l.restart()
	kittest.Eventually(t, "the removal", func() error {
		if got := l.plane.Connections(v.Key); got[v.Key] != nil {
			return fmt.Errorf("it is still there: %v", got)
		}
		state, err := l.plane.State(t.Context())
		if err == nil && len(state.Servers) > 0 {
			err = fmt.Errorf("in force: %v", state.Servers)
		}
		return err
	})
}

// TestStandInThatCouldNotBeAddedTakesNoTraffic checks that external clients are sent to a stand-in
// only once it is in the kernel.
func TestStandInThatCouldNotBeAddedTakesNoTraffic(t *testing.T) {
	l := newLife(t)
	inside, outside := draining(backend(1, 1), backend(2, 1)), draining(backend(1, 1))
	inside.Audience, outside.Audience = plan.Internal, plan.External
	changed := dataplanetest.Changes(inside, outside)
	sent := func() (n int) {
		for e := range l.host.elements {
			if e.Set == packetfilter.SplitMap {
				n++
			}
		}
		return n
	}
	l.balancer.refuses = func(o kernel.Op) bool { return o.ID.For != o.ID.Frontend }
	l.apply(1, changed)
	if sent() != 0 {
		t.Error("clients outside are sent to a stand-in that is not there")
	}
	l.balancer.refuses = nil
	l.apply(0, changed)
	if sent() != 1 {
		t.Error("clients outside are not sent to the stand-in")
	}
}

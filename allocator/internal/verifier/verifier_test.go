package verifier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/guard/guardtest"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/store"
)

// unreliableStore is a store that can execute a write and return an error nevertheless.
type unreliableStore struct {
	store.Store
	silent bool
	// replaced makes the store return that it went back if it does not know a position.
	replaced bool
}

func (m *unreliableStore) Transact(ctx context.Context, seen store.Position, decide func(store.News) (store.Batch, error)) (store.Position, error) {
	at, err := m.Store.Transact(ctx, seen, decide)
	if m.replaced && errors.Is(err, store.ErrOutdated) {
		return at, store.ErrWentBack
	}
	if err == nil && m.silent && at != seen {
		return at, errors.New("no answer")
	}
	return at, err
}

// testVerifier is a verifier with all its dependencies.
type testVerifier struct {
	*testing.T
	store    *unreliableStore
	engine   *engine.Engine
	metrics  *prometheus.Registry
	verifier *Verifier
	feed     *changestest.Feed
	registry *registry
	health   *health.Registry
	guard    *guardtest.World
	fresh    bool
	epoch    string
	ahead    time.Duration // of the engine's clock
}

// registry returns the objects of the feed unless the test sets others.
type registry struct {
	t    *testVerifier
	feed *changestest.Feed
	err  error
	// kept are Leases that cannot be deleted.
	kept map[string]bool
	// onHead returns the result of Head, unless it is nil.
	onHead func() (epoch string, revision uint64, err error)
	// differs holds objects that the registry has and the view has not; nil: deleted.
	differs map[object.Key]object.Object

	mu     sync.Mutex
	events []string
	types  map[string]corev1.EventType // of the events, by reason
}

func (r *registry) Get(_ context.Context, key object.Key) (object.Object, error) {
	if o, ok := r.differs[key]; ok || r.err != nil {
		return o, r.err
	}
	return r.feed.Get(key), nil
}

func (r *registry) Services(_ context.Context, namespace string) ([]*corev1.Service, error) {
	var all []*corev1.Service
	for _, o := range r.feed.Objects() {
		if svc, ok := o.(*corev1.Service); ok && svc.GetMetadata().GetNamespace() == namespace {
			all = append(all, svc)
		}
	}
	for _, o := range r.differs {
		if svc, ok := o.(*corev1.Service); ok {
			all = append(all, svc)
		}
	}
	return all, r.err
}

func (r *registry) DeleteLease(_ context.Context, name string) error {
	key := object.Key{Kind: "Lease", Namespace: "default", Name: name}
	switch {
	case r.err != nil:
		return r.err
	case r.kept[name]:
		return errors.New("the Lease has finalizers")
	case r.feed.Get(key) != nil:
		r.feed.Delete(key)
	}
	return nil
}

func (r *registry) Head(context.Context) (epoch string, revision uint64, err error) {
	if r.onHead != nil {
		return r.onHead()
	}
	return r.t.epoch, r.feed.Revision(), r.err
}

func (r *registry) Report(_ context.Context, about object.Object, typ corev1.EventType, reason, message string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.types[reason] = typ
	r.events = append(r.events, about.GetMetadata().GetName()+" "+reason+" "+message)
	return nil
}

// newTestVerifier returns a verifier with a registry that has the objects of a snapshot. The verifier gets them
// trimmed, as in the daemon.
func newTestVerifier(t *testing.T, snapshot ...object.Object) *testVerifier {
	w := &testVerifier{T: t, fresh: true, epoch: "epoch-1"}
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	w.store = &unreliableStore{Store: st}
	reg := prometheus.NewRegistry()
	w.engine, err = engine.New(t.Context(), engine.Config{Store: w.store, Log: kittest.Logger(t), Metrics: reg, Rest: time.Minute, Now: func() time.Time { return time.Now().Add(w.ahead) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.engine.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, p := range []store.Pool{
		{Name: "ips", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "10.96.0.0/24"},
		{Name: "lb", Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Range: "10.98.0.0/24"},
		{Name: "pods", Use: allocatorv1.Use_USE_POD_IP, Range: "10.97.0.0/24"},
		{Name: "ports", Use: allocatorv1.Use_USE_NODE_PORT, Range: "30000-30099"},
	} {
		if _, err := w.engine.CreatePool(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	w.metrics = reg
	w.registry = &registry{t: w, kept: map[string]bool{}, differs: map[object.Key]object.Object{}, types: map[string]corev1.EventType{}}
	w.health = health.New(kittest.Logger(t))
	w.guard = guardtest.New(t)
	w.verifier = New(Config{
		Guard:  w.guard.Guard,
		Engine: w.engine, Registry: w.registry, Log: kittest.Logger(t), Metrics: reg, Health: w.health,
		Grace: time.Nanosecond, Interval: time.Hour, ViewCurrent: func() bool { return w.fresh }, Epoch: func() string { return w.epoch },
	})
	w.feed = changestest.NewFeed(t, changestest.AsFollowed(Keeps, Trim, w.verifier.Apply), snapshot...)
	w.registry.feed = w.feed
	w.verifier.keepReservesOnce(t.Context())
	return w
}

// passGrace runs enough passes for a difference to be old.
func (w *testVerifier) passGrace() {
	for range 3 {
		w.verifier.reconcileAll(w.Context())
	}
}

func (w *testVerifier) allocate(o store.Owner, slot string, use allocatorv1.Use, value string) {
	w.Helper()
	results, err := w.engine.Allocate(w.Context(), []engine.Set{{Owner: o, Requests: []allocation.ClaimRequest{{Slot: slot, Use: use, Value: value}}}}, false)
	if err != nil || len(results[0].Failures) > 0 {
		w.Fatalf("allocate %s: %v %v", value, results, err)
	}
}

func (w *testVerifier) confirm(uid string) {
	w.Helper()
	if _, _, err := w.engine.Confirm(w.Context(), []engine.OwnerSlots{{UID: uid}}); err != nil {
		w.Fatal(err)
	}
}

// want checks the values with their owners: "10.96.0.1 uid", with "?" if the value is not
// confirmed.
func (w *testVerifier) want(lines ...string) {
	w.Helper()
	var got []string
	for _, h := range w.engine.Allocations() {
		line := h.Value.String() + " " + h.Owner.UID
		if !slices.ContainsFunc(h.Claims, func(c store.Claim) bool { return c.Confirmed }) {
			line += "?"
		}
		got = append(got, line)
	}
	slices.Sort(got)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		w.Errorf("held %q, want %q", got, lines)
	}
}

// wantEvents checks events by their beginnings, and removes them.
func (w *testVerifier) wantEvents(beginnings ...string) {
	w.Helper()
	slices.Sort(w.registry.events)
	slices.Sort(beginnings)
	if !slices.EqualFunc(w.registry.events, beginnings, strings.HasPrefix) {
		w.Errorf("events %q, want %q", w.registry.events, beginnings)
	}
	w.registry.events = nil
}

// wantCounts checks counters of the verifier, by their names without the common prefix.
func (w *testVerifier) wantCounts(want map[string]float64) {
	w.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, family := range families {
		name := strings.TrimSuffix(strings.TrimPrefix(family.GetName(), "portolan_allocator_verifier_"), "_total")
		if n, ok := want[name]; ok && family.GetMetric()[0].GetCounter().GetValue() != n {
			w.Errorf("%s is %v, want %v", family.GetName(), family.GetMetric()[0].GetCounter().GetValue(), n)
		}
		delete(want, name)
	}
	for name := range want {
		w.Errorf("nothing counts %s", name)
	}
}

func service(name, uid, ip string, ports ...int32) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default", Uid: uid},
		Spec:     &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_NODE_PORT, ClusterIp: ip, ClusterIps: []string{ip}},
	}
	for _, p := range ports {
		svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{NodePort: p})
	}
	return svc
}

const (
	clusterIP = allocatorv1.Use_USE_CLUSTER_IP
	nodePort  = allocatorv1.Use_USE_NODE_PORT
)

func TestWhatNoObjectHasIsFreed(t *testing.T) {
	w := newTestVerifier(t)
	web := service("web", "u1", "10.96.0.1", 30001)
	web.Metadata.Finalizers = []string{object.FinalizerLoadBalancer} // it may still get its load-balancer address
	pod := &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: "p", Namespace: "default", Uid: "u3"}}
	w.feed.Put(web, pod)
	w.allocate(ownerOf(web), "ip", clusterIP, "10.96.0.1")
	w.allocate(ownerOf(web), "old", nodePort, "30001")
	w.allocate(ownerOf(web), "gone", nodePort, "30002")
	w.allocate(ownerOf(web), "lb", allocatorv1.Use_USE_LOAD_BALANCER_IP, "10.98.0.1")
	w.confirm("u1")
	w.allocate(store.Owner{UID: "u2", Kind: "Service", Namespace: "default", Name: "never-stored"}, "ip", clusterIP, "10.96.0.2")
	w.allocate(ownerOf(pod), "ip", allocatorv1.Use_USE_POD_IP, "10.97.0.1")
	w.allocate(store.Owner{UID: "u4", Kind: "Machine", Name: "m"}, "ip", clusterIP, "10.96.0.4")
	w.confirm("u4")
	w.allocate(store.Owner{UID: "u5", Kind: "Machine", Name: "n"}, "ip", clusterIP, "10.96.0.5")
	w.passGrace()
	// The pod's address was confirmed because the pod exists.
	w.want("10.96.0.1 u1", "30001 u1", "10.98.0.1 u1", "10.97.0.1 u3", "10.96.0.4 u4")

	w.feed.Delete(object.KeyOf(web), object.KeyOf(pod))
	w.passGrace()
	w.want("10.96.0.4 u4")
	w.wantEvents()
	w.wantCounts(map[string]float64{"freed": 7, "confirmed": 1, "readded": 0, "passes": 6})
}

func TestNothingIsFreedWhileInDoubt(t *testing.T) {
	web := service("web", "u1", "10.96.0.1")
	for name, doubt := range map[string]func(*testVerifier){
		"the view is old":                 func(w *testVerifier) { w.fresh = false },
		"the registry does not answer":    func(w *testVerifier) { w.registry.err = errors.New("gone fishing") },
		"the registry has the object":     func(w *testVerifier) { w.registry.differs[object.KeyOf(web)] = web },
		"the difference is of yesterday":  func(w *testVerifier) { w.verifier.cfg.Grace = 24 * time.Hour },
		"the value was claimed just now":  func(w *testVerifier) { w.verifier.cfg.Grace = 24 * time.Hour; w.longSuspected() },
		"the allocator's store is closed": func(w *testVerifier) { w.engine.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestVerifier(t)
			w.allocate(ownerOf(web), "ip", clusterIP, "10.96.0.1")
			doubt(w)
			w.passGrace()
			w.want("10.96.0.1 u1?")
		})
	}
}

// longSuspected makes all differences old.
func (w *testVerifier) longSuspected() {
	w.verifier.reconcileAll(w.Context())
	for s := range maps.Keys(w.verifier.differences) {
		w.verifier.differences[s] = time.Now().Add(-48 * time.Hour)
	}
}

func TestWhatObjectsHaveIsAllocated(t *testing.T) {
	w := newTestVerifier(t)
	first := service("first", "u1", "10.96.0.1", 30001, 30001)
	w.feed.Put(first)
	w.passGrace()
	w.want("10.96.0.1 u1", "30001 u1")
	w.wantEvents("first ClusterIPNotAllocated", "first PortNotAllocated")

	w.feed.Put(
		service("second", "u2", "10.96.0.1", 30001),
		service("third", "u3", "10.200.0.1", 40000),
		service("fourth", "u4", "not-an-ip", -5),
		service("headless", "u5", "None"),
	)
	w.passGrace()
	w.want("10.96.0.1 u1", "30001 u1")
	w.wantEvents(
		"second ClusterIPAlreadyAllocated spec.clusterIPs[0]: 10.96.0.1 is already allocated to Service default/first",
		"second PortAlreadyAllocated spec.ports[0].nodePort: 30001 is already allocated to Service default/first",
		"first ClusterIPAlreadyAllocated spec.clusterIPs[0]: 10.96.0.1 is also in Service default/second",
		"first PortAlreadyAllocated spec.ports[0].nodePort: 30001 is also in Service default/second",
		"third ClusterIPOutOfRange spec.clusterIPs[0]: provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/24",
		"third PortOutOfRange spec.ports[0].nodePort: provided port is not in the valid range. The range of valid ports is 30000-30099",
		"fourth ClusterIPNotValid", "fourth PortNotValid",
	)
	w.passGrace()
	w.wantEvents() // all events were reported before
	for reason, typ := range w.registry.types {
		if normal := reason == ipRepaired || reason == portRepaired; normal != (typ == corev1.EventType_EVENT_TYPE_NORMAL) {
			t.Errorf("an event %s is of type %s; only what is in order again is no warning", reason, typ)
		}
	}

	w.feed.Delete(object.KeyOf(first))
	w.passGrace()
	w.passGrace()
	w.want("10.96.0.1 u2", "30001 u2")
	w.wantEvents("second ClusterIPNotAllocated", "second PortNotAllocated")
}

// TestASnapshotIsTakenUpBeforeAnythingIsAllocated starts on an empty folder: once the first
// snapshot is applied, the values of its objects are allocated to them.
func TestASnapshotIsTakenUpBeforeAnythingIsAllocated(t *testing.T) {
	old := service("old", "u9", "10.96.0.1", 30001)
	old.Metadata.CreationTimestamp = timestamppb.New(time.Unix(1000, 0))
	young := service("young", "u1", "10.96.0.1", 30001, 30002)
	young.Metadata.CreationTimestamp = timestamppb.New(time.Unix(2000, 0))
	pod := &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: "p", Namespace: "default", Uid: "u3"},
		Status:   &corev1.PodStatus{PodIp: "10.97.0.7", PodIps: []string{"10.97.0.7"}},
	}
	elsewhere := &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: "q", Namespace: "default", Uid: "u4"},
		Status:   &corev1.PodStatus{PodIp: "192.0.2.1", PodIps: []string{"192.0.2.1"}},
	}
	w := newTestVerifier(t, young, old, pod, elsewhere, service("broken", "u5", "no-ip"))
	if epoch, err := w.verifier.Adopted(t.Context()); err != nil || epoch != "epoch-1" {
		t.Fatalf("the values of the snapshot are adopted for the log %q, %v", epoch, err)
	}
	w.want("10.96.0.1 u9", "30001 u9", "30002 u1", "10.97.0.7 u3")
	w.wantEvents()

	w.passGrace()
	w.want("10.96.0.1 u9", "30001 u9", "30002 u1", "10.97.0.7 u3")
	w.wantEvents(
		"young ClusterIPAlreadyAllocated spec.clusterIPs[0]: 10.96.0.1 is already allocated to Service default/old",
		"young PortAlreadyAllocated spec.ports[0].nodePort: 30001 is already allocated to Service default/old",
		"old ClusterIPAlreadyAllocated spec.clusterIPs[0]: 10.96.0.1 is also in Service default/young",
		"old PortAlreadyAllocated spec.ports[0].nodePort: 30001 is also in Service default/young",
		"broken ClusterIPNotValid",
	)
	w.passGrace()
	w.wantEvents() // all events were reported before
}

func TestTakingUpWaitsForTheStore(t *testing.T) {
	w := newTestVerifier(t)
	w.engine.Close()
	checks := health.New(kittest.Logger(t))
	w.epoch = "e"
	w.registry.onHead = func() (string, uint64, error) { return w.epoch, 1, nil }
	v := New(Config{
		Engine: w.engine, Registry: w.registry, Log: kittest.Logger(t), Metrics: prometheus.NewRegistry(), Health: checks, Epoch: func() string { return w.epoch },
	})
	if err := v.Apply(t.Context(), []changes.Change{{New: service("web", "u1", "10.96.0.1")}}, 1); err != nil {
		t.Fatal(err)
	}
	v.keepReservesOnce(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if epoch, err := v.Adopted(ctx); err == nil || checks.Ready() == nil {
		t.Errorf("allocation is open for the log %q though the values in use are not adopted", epoch)
	}
}

func TestAServiceThatWasJustDeletedGetsNothing(t *testing.T) {
	w := newTestVerifier(t)
	web := service("web", "u1", "10.96.0.1", 30001)
	w.registry.differs[object.KeyOf(web)] = nil
	w.feed.Put(web)
	w.passGrace()
	w.want()
	w.wantEvents()
}

// TestAReleasedValueIsNotGivenBack tests a service that is being deleted: its values are released,
// and the registry still returns the service as it was before the deletion.
func TestAReleasedValueIsNotGivenBack(t *testing.T) {
	w := newTestVerifier(t)
	w.verifier.cfg.Grace = time.Minute
	web := service("web", "u1", "10.96.0.1")
	w.feed.Put(web)
	w.allocate(ownerOf(web), "ip", clusterIP, "10.96.0.1")
	w.confirm("u1")
	if _, err := w.engine.Release(t.Context(), []engine.OwnerSlots{{UID: "u1"}}); err != nil {
		t.Fatal(err)
	}
	w.passGrace()
	w.want()
	w.wantEvents()

	w.verifier.cfg.Grace = time.Nanosecond // the grace is over, and the service still exists
	w.passGrace()
	w.want("10.96.0.1 u1")
	w.wantEvents("web ClusterIPNotAllocated")
}

// TestAValueHeldByAWriteThatSeemedToFailIsFreed checks that a value which only the store has is
// freed without a further allocation.
func TestAValueHeldByAWriteThatSeemedToFailIsFreed(t *testing.T) {
	w := newTestVerifier(t)
	w.store.silent = true
	wants := []allocation.ClaimRequest{{Slot: "ip", Use: clusterIP, Value: "10.96.0.1"}}
	if _, err := w.engine.Allocate(t.Context(), []engine.Set{{Owner: ownerOf(service("web", "u1", "")), Requests: wants}}, false); err == nil {
		t.Fatal("a write without an answer is no error")
	}
	w.store.silent = false
	w.verifier.reconcileAll(t.Context())
	w.want("10.96.0.1 u1?")
	w.passGrace()
	w.want()
}

func TestRunActsOnChanges(t *testing.T) {
	w := newTestVerifier(t)
	kittest.Run(t, "verifier", w.verifier.Run)
	w.feed.Put(service("web", "u1", "10.96.0.1"))
	kittest.Eventually(t, "the value to be allocated", func() error {
		if n := len(w.engine.Allocations()); n != 1 {
			return fmt.Errorf("%d values are held", n)
		}
		return nil
	})
}

// TestAMissingValueMayComeLate deletes a service within the time that the view may lag behind the
// registry: nothing is allocated to it. A service that stays gets its value after two seconds, or
// after a quarter of a shorter grace.
func TestAMissingValueMayComeLate(t *testing.T) {
	for grace, late := range map[time.Duration]time.Duration{time.Hour: 2 * time.Second, 4 * time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestVerifier(t)
			w.verifier.cfg.Grace = grace
			kittest.Run(t, "verifier", w.verifier.Run)
			after := func(d time.Duration) {
				time.Sleep(d)
				synctest.Wait()
			}
			brief := service("brief", "u1", "10.96.0.1")
			w.feed.Put(brief)
			after(late - time.Millisecond)
			w.want()
			w.feed.Delete(object.KeyOf(brief))
			after(time.Minute)
			w.want()
			w.feed.Put(service("web", "u2", "10.96.0.2"))
			after(late)
			w.want("10.96.0.2 u2")
			w.wantEvents("web ClusterIPNotAllocated")
		})
	}
}

// TestAdoptionWaitsForTheView has a service in the registry that the view does not have yet when values
// are adopted. Nothing is allocated before the view has it, also without a reserve.
func TestAdoptionWaitsForTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestVerifier(t)
		w.registry.onHead = func() (string, uint64, error) { return w.epoch, w.feed.Revision() + 1, nil }
		w.verifier.gate.shut()
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.verifier.keepReservesOnce(t.Context())
		}()
		synctest.Wait()
		if w.verifier.gate.isOpenFor(w.epoch) {
			t.Error("values are allocated although a service is not known yet")
		}
		w.feed.Put(service("web", "u1", "10.96.0.5"))
		<-done
		if !w.verifier.gate.isOpenFor(w.epoch) {
			t.Error("no values are allocated afterwards")
		}
		w.want("10.96.0.5 u1")
	})
}

// TestAStoreThatWentBackIsAdoptedAgain replaces the store by a copy from the time before a service was
// made. Its address looks free there.
func TestAStoreThatWentBackIsAdoptedAgain(t *testing.T) {
	w := newTestVerifier(t, service("web", "u1", "10.96.0.5"))
	w.want("10.96.0.5 u1")
	var old store.Snapshot
	if err := w.store.Snapshot(t.Context(), func(content store.Snapshot) error {
		old = store.Snapshot{Position: content.Position, Pools: content.Pools, Allocations: func(func(store.Allocation, error) bool) {}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Restore(t.Context(), old.Position, old); err != nil {
		t.Fatal(err)
	}
	w.store.replaced = true
	claim := []engine.Set{{Owner: store.Owner{UID: "other"}, Requests: []allocation.ClaimRequest{{Slot: "ip", Use: allocatorv1.Use_USE_CLUSTER_IP, Value: "10.96.0.5"}}}}
	if results, err := w.engine.Allocate(t.Context(), claim, false); !apierr.IsUnavailable(err) {
		t.Errorf("before the values in use are known again: %v, %v", results, err)
	}
	w.verifier.keepReservesOnce(t.Context())
	if err := w.health.Ready(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	w.want("10.96.0.5 u1")
	if results, err := w.engine.Allocate(t.Context(), claim, false); err != nil || len(results[0].Failures) != 1 {
		t.Errorf("what a service has: %v, %v", results, err)
	}
	w.allocate(store.Owner{UID: "other"}, "ip", allocatorv1.Use_USE_CLUSTER_IP, "10.96.0.6")
}

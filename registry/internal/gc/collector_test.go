package gc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/allocator"
	"portolan.dev/registry/internal/gc"
	"portolan.dev/registry/internal/offers"
	"portolan.dev/registry/internal/quota"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/sqlite"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// interruptible is a store that lets the test act right before a deletion, or instead of it.
type interruptible struct {
	store.Store
	beforeDelete atomic.Pointer[func(name string) error]
}

func (s *interruptible) Submit(ctx context.Context, op store.Op) (store.Result, error) {
	if act := s.beforeDelete.Load(); act != nil && op.Action == store.Delete {
		if err := (*act)(op.Key.Name); err != nil {
			return store.Result{}, err
		}
	}
	return s.Store.Submit(ctx, op)
}

// fixture is a collector on a real store.
type fixture struct {
	*admission.Writer
	t         *testing.T
	collector *gc.Collector
	store     *interruptible
	deaf      atomic.Bool // the collector does not observe changes
	reaper    atomic.Pointer[gc.Reaper]
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{t: t, store: &interruptible{Store: s}}
	host := kittest.Host(t, nil, "")
	indexes := rules.NewIndexes(nil)
	f.collector = gc.NewCollector(indexes, host.Log)
	v, err := view.New(t.Context(), view.Config{
		Store: s, Log: host.Log, Metrics: host.Metrics, Health: host.Health, Indexes: indexes.List(),
		Publish: func(state *view.State, changes []*view.Change) {
			if r := f.reaper.Load(); r != nil {
				r.Observe(changes)
			}
			if !f.deaf.Load() {
				f.collector.Observe(state, changes)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "view", v.Run)
	client := allocator.NewClient(allocatorv1.NewAllocatorServiceClient(nil), host.Log, host.Metrics)
	t.Cleanup(client.Close)
	f.Writer = admission.New(admission.Config{
		Store: f.store, View: v, Indexes: indexes, Offers: offers.NewCatalog(), Allocator: client, Quotas: quota.NewLedger(nil, quota.OwnerLimits{Pods: 10, Services: 10}, host.Metrics),
		Families: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4},
	})
	f.collector.Use(v, f.Writer)
	f.create(&corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "default"}})
	return f
}

func (f *fixture) create(o object.Object) object.Object {
	f.t.Helper()
	result, err := f.Create(f.t.Context(), o, admission.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	return result.Object
}

// lease creates a lease with the given owner, if any.
func (f *fixture) lease(name string, owner object.Object) object.Object {
	f.t.Helper()
	lease := &corev1.Lease{Metadata: &corev1.ObjectMeta{Name: name}}
	if owner != nil {
		lease.Metadata.OwnerReferences = ownedBy(owner)
	}
	return f.create(lease)
}

func ownedBy(owner object.Object) []*corev1.OwnerReference {
	meta := owner.GetMetadata()
	return []*corev1.OwnerReference{{ApiVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: meta.GetName(), Uid: meta.GetUid()}}
}

func (f *fixture) delete(name string) {
	f.t.Helper()
	key := object.Key{Kind: "Lease", Namespace: "default", Name: name}
	if _, err := f.Delete(f.t.Context(), key, admission.Deletion{}, admission.Options{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) stored(name string) bool {
	f.t.Helper()
	return f.View.State().Get(object.Key{Kind: "Lease", Namespace: "default", Name: name}) != nil
}

func (f *fixture) run() (stop func()) { return kittest.Run(f.t, "collector", f.collector.Run) }

// TestOnlyTheJudgedVersionIsDeleted gives an object a new owner between the collector's decision
// and its deletion.
func TestOnlyTheJudgedVersionIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		first, second := f.lease("first", nil), f.lease("second", nil)
		owned := f.lease("owned", first)
		f.deaf.Store(true)
		f.delete("first")
		attempts := 0
		adopt := func(string) error {
			attempts++
			f.store.beforeDelete.Store(nil)
			adopted := object.Clone(owned)
			adopted.GetMetadata().OwnerReferences = ownedBy(second)
			_, err := f.Update(t.Context(), adopted, admission.Options{})
			return err
		}
		f.store.beforeDelete.Store(&adopt)
		f.deaf.Store(false)
		f.run()
		time.Sleep(time.Minute)
		synctest.Wait()
		if attempts != 1 {
			t.Errorf("the collector began to delete it %d times, want once", attempts)
		}
		if !f.stored("owned") {
			t.Error("an object that had got a living owner was deleted")
		}
		f.delete("second")
		time.Sleep(time.Minute)
		synctest.Wait()
		if f.stored("owned") {
			t.Error("the object was not judged again")
		}
	})
}

// TestSweepsAgain lets the collector miss a change. A later sweep must find the object, after any
// number of earlier sweeps.
func TestSweepsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.run()
		for _, name := range []string{"a", "b", "c"} {
			owner := f.lease("owner-"+name, nil)
			f.lease("owned-"+name, owner)
			f.lease("kept-"+name, f.lease("living-"+name, nil))
			f.deaf.Store(true)
			f.delete("owner-" + name)
			synctest.Wait()
			f.deaf.Store(false)
			if !f.stored("owned-" + name) {
				t.Fatal("the collector was told: this test tests nothing")
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if f.stored("owned-" + name) {
				t.Errorf("owned-%s is there after the sweep", name)
			}
			if !f.stored("kept-" + name) {
				t.Errorf("kept-%s was deleted with its owner alive", name)
			}
		}
	})
}

// TestCollectsAgainAfterFailure makes the store fail for a while. Objects that were due must be
// deleted once the store works again.
func TestCollectsAgainAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.run()
		f.lease("owned", f.lease("owner", nil))
		attempts := 0
		away := func(name string) error {
			if name == "owner" {
				return nil
			}
			attempts++
			return store.ErrUnavailable
		}
		f.store.beforeDelete.Store(&away)
		f.delete("owner")
		synctest.Wait()
		time.Sleep(10500 * time.Millisecond)
		synctest.Wait()
		if attempts < 10 || attempts > 12 {
			t.Errorf("%d attempts within ten seconds, want one a second", attempts)
		}
		f.store.beforeDelete.Store(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if f.stored("owned") {
			t.Error("it is still there after the store is back")
		}
	})
}

// TestNamespaceGoesLast deletes a namespace with contents. The contents must be deleted first, and
// then the namespace.
func TestNamespaceGoesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.run()
		f.create(&corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "shop"}})
		for _, name := range []string{"a", "b"} {
			f.create(&corev1.Lease{Metadata: &corev1.ObjectMeta{Name: name, Namespace: "shop"}})
		}
		held := f.create(&corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "held", Namespace: "shop", Finalizers: []string{"example.org/hold"}}})
		shop := object.Key{Kind: "Namespace", Name: "shop"}
		if _, err := f.Delete(t.Context(), shop, admission.Deletion{}, admission.Options{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		state := f.View.State()
		left := 0
		for range state.All("Lease", "shop") {
			left++
		}
		if left != 1 || state.Get(shop) == nil {
			t.Errorf("%d objects are left, namespace %v; want the one that is held, and its namespace", left, state.Get(shop))
		}
		released := object.Clone(state.Get(object.KeyOf(held)).Object)
		released.GetMetadata().Finalizers = nil
		if _, err := f.Update(t.Context(), released, admission.Options{}); err != nil && !apierr.IsNotFound(err) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if f.View.State().Get(shop) != nil {
			t.Error("the empty namespace is still there")
		}
	})
}

// TestEndpointsFromAfterTheirServiceStay deletes two services. The Endpoints of the first are older than the deletion,
// so they belonged to it and are deleted. The Endpoints of the second are written after the deletion, for a service of
// the same name that its owner creates next. If the collector did not compare the revisions, it would delete them too.
func TestEndpointsFromAfterTheirServiceStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		endpoints := func(name string) { f.create(&corev1.Endpoints{Metadata: &corev1.ObjectMeta{Name: name}}) }
		stored := func(name string) bool {
			return f.View.State().Get(object.Key{Kind: "Endpoints", Namespace: "default", Name: name}) != nil
		}
		for _, name := range []string{"first", "second"} {
			f.create(&corev1.Service{Metadata: &corev1.ObjectMeta{Name: name}, Spec: &corev1.ServiceSpec{
				ClusterIp: "None", Ports: []*corev1.ServicePort{{Port: 80}},
			}})
		}
		endpoints("first")
		for _, name := range []string{"first", "second"} {
			key := object.Key{Kind: "Service", Namespace: "default", Name: name}
			if _, err := f.Delete(t.Context(), key, admission.Deletion{}, admission.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		endpoints("second") // the collector has observed the deletions, and has not acted yet
		synctest.Wait()
		f.run()
		time.Sleep(2 * time.Minute) // two sweeps
		synctest.Wait()
		if stored("first") {
			t.Error("the Endpoints of a deleted service are still there")
		}
		if !stored("second") {
			t.Error("Endpoints that were written after the deletion of the service were deleted")
		}
	})
}

package admission_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/allocator"
	"portolan.dev/registry/internal/allocfake"
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

// breaking is a store that fails writes on demand, before or after they are stored. It does not fail
// writes of Leases.
type breaking struct {
	store.Store
	before, after atomic.Pointer[error]
	submitting    atomic.Pointer[func()] // called once before a write
	refused       atomic.Pointer[func()] // called once after a write that was made to fail before it was stored
	committed     atomic.Pointer[func()] // called once after a write, before its outcome is returned
	submits       atomic.Int64           // number of writes
	looked        chan struct{}          // has an element after the first call of Head
	many          []int                  // sizes of the calls of SubmitMany
	race          func()                 // called once before the writes of SubmitMany
}

func (b *breaking) Head(ctx context.Context) (store.Head, error) {
	select {
	case b.looked <- struct{}{}:
	default:
	}
	return b.Store.Head(ctx)
}

func (b *breaking) Submit(ctx context.Context, op store.Op) (store.Result, error) {
	b.submits.Add(1)
	if op.Key.Kind == "Lease" {
		return b.Store.Submit(ctx, op)
	}
	if first := b.submitting.Swap(nil); first != nil {
		(*first)()
	}
	if err := b.before.Load(); err != nil {
		if then := b.refused.Swap(nil); then != nil {
			(*then)()
		}
		return store.Result{}, *err
	}
	result, err := b.Store.Submit(ctx, op)
	if then := b.committed.Swap(nil); then != nil {
		(*then)()
	}
	if lost := b.after.Load(); err == nil && lost != nil {
		return store.Result{}, *lost
	}
	return result, err
}

// fixture is a writer on a real store, which can be made to fail, with an allocator that keeps its
// rules.
type fixture struct {
	*admission.Writer
	store     *breaking
	metrics   *prometheus.Registry
	allocator *allocfake.Allocator
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f, follow := newReplica(t, openStore(t))
	follow()
	f.must(t, &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "default"}})
	return f
}

func openStore(t *testing.T) store.Store {
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
	return s
}

// newReplica returns a writer. Its view stays at the present state of the store until follow is called.
func newReplica(t *testing.T, s store.Store) (f *fixture, follow func()) {
	t.Helper()
	return newProcess(t, s, allocfake.New(poolSize, "10.96.0.0/16"))
}

// poolSize is the number of values of each kind in the allocator.
const poolSize = 40

// newProcess is newReplica with a given allocator.
func newProcess(t *testing.T, s store.Store, values *allocfake.Allocator) (f *fixture, follow func()) {
	t.Helper()
	f = &fixture{store: &breaking{Store: s, looked: make(chan struct{}, 1)}, allocator: values}
	host := kittest.Host(t, nil, "")
	f.metrics = host.Metrics
	indexes := rules.NewIndexes(nil)
	v, err := view.New(t.Context(), view.Config{Store: s, Log: host.Log, Metrics: host.Metrics, Health: host.Health, Indexes: indexes.List()})
	if err != nil {
		t.Fatal(err)
	}
	client := allocator.NewClient(allocatorv1.NewAllocatorServiceClient(kittest.Conn(t, f.allocator.Register)), host.Log, host.Metrics)
	t.Cleanup(client.Close)
	client.KeepReserve(admission.ReserveLeases{Store: f.store}, host.Health, host.Metrics)
	kittest.Run(t, "settle", client.Run)
	f.Writer = admission.New(admission.Config{
		Store: f.store, View: v, Indexes: indexes, Offers: offers.NewCatalog(), Allocator: client, Quotas: quota.NewLedger(nil, quota.OwnerLimits{Pods: 10, Services: 10}, host.Metrics),
		Families: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4},
	})
	return f, func() { kittest.Run(t, "view", v.Run) }
}

func (f *fixture) must(t *testing.T, o object.Object) object.Object {
	t.Helper()
	result, err := f.Create(t.Context(), o, admission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return result.Object
}

func service(kind corev1.ServiceType) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web"},
		Spec:     &corev1.ServiceSpec{Type: kind, Ports: []*corev1.ServicePort{{Port: 80}}},
	}
}

// fail makes the writes of fn fail in one of the two ways.
func fail(way *atomic.Pointer[error], err error, fn func()) {
	way.Store(&err)
	defer way.Store(nil)
	fn()
}

// TestFailedCommitReleases checks that the values of a write which was certainly not stored are
// released, and that a write with an unknown outcome keeps its values.
func TestFailedCommitReleases(t *testing.T) {
	f := newFixture(t)
	fail(&f.store.before, store.ErrUnavailable, func() {
		if _, err := f.Create(t.Context(), service(corev1.ServiceType_SERVICE_TYPE_NODE_PORT), admission.Options{}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("create: %v", err)
		}
	})
	if n := f.allocator.Used(); n != 0 {
		t.Errorf("%d values are allocated for what was not stored", n)
	}
	fail(&f.store.after, store.ErrUnknown, func() {
		if _, err := f.Create(t.Context(), service(corev1.ServiceType_SERVICE_TYPE_NODE_PORT), admission.Options{}); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("create: %v", err)
		}
	})
	if n := f.allocator.Used(); n != 2 {
		t.Errorf("%d values are allocated, want the 2 of a service that is stored though nobody could tell", n)
	}
}

// TestFailedUpdateKeepsWhatIsInUse checks that a stored update releases values of the former version, and
// that a failed update keeps them.
func TestFailedUpdateKeepsWhatIsInUse(t *testing.T) {
	f := newFixture(t)
	svc, _ := f.must(t, service(corev1.ServiceType_SERVICE_TYPE_NODE_PORT)).(*corev1.Service)
	uid := svc.GetMetadata().GetUid()
	want := []string{"10.96.0.1", "30000"}
	changes := map[string]func(*corev1.Service){
		"another node port": func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30005 },
		"no node port":      func(s *corev1.Service) { s.Spec.Type = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			updated := svc.CloneVT()
			change(updated)
			fail(&f.store.before, store.ErrUnavailable, func() {
				if _, err := f.Update(t.Context(), updated, admission.Options{}); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("update: %v", err)
				}
			})
			if got := f.allocator.Values(uid); !slices.Equal(got, want) {
				t.Errorf("it has %v, want %v", got, want)
			}
		})
	}
	fail(&f.store.before, store.ErrUnavailable, func() {
		if _, err := f.Delete(t.Context(), object.KeyOf(svc), admission.Deletion{}, admission.Options{}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("delete: %v", err)
		}
	})
	if got := f.allocator.Values(uid); !slices.Equal(got, want) {
		t.Errorf("after a delete that did not happen it has %v, want %v", got, want)
	}
}

// TestUpdateKeepsWhatALaterOneTakesAgain lets an update give up a node port. Before it releases the
// port, another update claims the port again. The port must not be released then, because another
// service could get it.
func TestUpdateKeepsWhatALaterOneTakesAgain(t *testing.T) {
	f := newFixture(t)
	svc, _ := f.must(t, service(corev1.ServiceType_SERVICE_TYPE_NODE_PORT)).(*corev1.Service)
	update := func(nodePort int32) {
		updated := svc.CloneVT()
		updated.Metadata.ResourceVersion = 0
		updated.Spec.Ports[0].NodePort = nodePort
		if _, err := f.Update(t.Context(), updated, admission.Options{}); err != nil {
			t.Errorf("update to node port %d: %v", nodePort, err)
		}
	}
	again := func() { update(30000) }
	f.store.committed.Store(&again)
	update(30005)
	if got, want := f.allocator.Values(svc.GetMetadata().GetUid()), []string{"10.96.0.1", "30000"}; !slices.Equal(got, want) {
		t.Errorf("it holds %v, want %v", got, want)
	}
}

// TestUnconditionalUpdatesDoNotLoseEachOther lets many writers change the status and the other
// fields concurrently, without naming versions.
func TestUnconditionalUpdatesDoNotLoseEachOther(t *testing.T) {
	f := newFixture(t)
	pod := &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: "p"}, Spec: &corev1.PodSpec{Containers: []*corev1.Container{{Name: "c", Image: "i"}}}}
	f.must(t, pod.CloneVT())
	const rounds = 25
	done := make(chan error, 2)
	go func() {
		done <- func() error {
			for n := range rounds {
				o := pod.CloneVT()
				o.Metadata.Labels = map[string]string{"round": fmt.Sprint(n)}
				if _, err := f.Update(t.Context(), o, admission.Options{}); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	go func() {
		done <- func() error {
			for n := range rounds {
				o := pod.CloneVT()
				o.Status = &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, Message: fmt.Sprint(n)}
				if _, err := f.UpdateStatus(t.Context(), o, admission.Options{}); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	for range 2 {
		if err := kittest.Receive(t, "a writer", done); err != nil {
			t.Error(err)
		}
	}
	got, _ := f.View.State().Get(object.Key{Kind: "Pod", Namespace: "default", Name: "p"}).Object.(*corev1.Pod)
	last := fmt.Sprint(rounds - 1)
	if got.GetMetadata().GetLabels()["round"] != last || got.GetStatus().GetMessage() != last {
		t.Errorf("the last update of one side was lost: %v", got)
	}
}

// TestConditionalUpdateAfterChange checks that an update of an outdated version is refused with an
// error that names both versions.
func TestConditionalUpdateAfterChange(t *testing.T) {
	f := newFixture(t)
	created := f.must(t, &corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "l"}})
	changed := object.Clone(created)
	changed.GetMetadata().Labels = map[string]string{"a": "b"}
	if _, err := f.Update(t.Context(), changed, admission.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Update(t.Context(), created, admission.Options{}); !apierr.IsConflict(err) {
		t.Errorf("update of the version before: %v", err)
	}
}

// TestUpdateThatChangesNothingInAnOldView sends an update that changes nothing in the outdated view
// of a replica, but does change the stored object. It must be stored. Otherwise the client would
// get a success, and the object would keep the changes of another client.
func TestUpdateThatChangesNothingInAnOldView(t *testing.T) {
	lease := func(label string) *corev1.Lease {
		return &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "l", Labels: map[string]string{"as": label}}}
	}
	remake := func(t *testing.T, f *fixture) {
		if _, err := f.Delete(t.Context(), object.KeyOf(lease("")), admission.Deletion{}, admission.Options{}); err != nil {
			t.Fatal(err)
		}
		f.must(t, lease("second"))
	}
	for name, change := range map[string]func(t *testing.T, f *fixture){
		"changed": func(t *testing.T, f *fixture) {
			if _, err := f.Update(t.Context(), lease("second"), admission.Options{}); err != nil {
				t.Fatal(err)
			}
		},
		"deleted and made again": remake,
	} {
		t.Run(name, func(t *testing.T) {
			ahead := newFixture(t)
			first := ahead.must(t, lease("first"))
			behind, follow := newReplica(t, ahead.store)
			change(t, ahead)
			got := updateBehind(t, behind, follow, lease("first"))
			if got.error != nil || !got.Changed || got.Object.GetMetadata().GetResourceVersion() <= first.GetMetadata().GetResourceVersion()+1 {
				t.Fatalf("update: %+v, %v", got.Result, got.error)
			}
			if err := ahead.View.WaitFor(t.Context(), got.Object.GetMetadata().GetResourceVersion()); err != nil {
				t.Fatal(err)
			}
			if item := ahead.View.State().Get(object.KeyOf(first)); item.Object.GetMetadata().GetLabels()["as"] != "first" {
				t.Errorf("stored is %v", item.Object)
			}
		})
	}
}

// TestConditionalUpdateThatChangesNothingInAnOldView checks that an update that changes nothing in an
// outdated view is refused if it names an outdated version.
func TestConditionalUpdateThatChangesNothingInAnOldView(t *testing.T) {
	ahead := newFixture(t)
	first := ahead.must(t, &corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "l"}})
	behind, follow := newReplica(t, ahead.store)
	changed := object.Clone(first)
	changed.GetMetadata().Labels = map[string]string{"a": "b"}
	if _, err := ahead.Update(t.Context(), changed, admission.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := updateBehind(t, behind, follow, object.Clone(first)); !apierr.IsConflict(got.error) {
		t.Errorf("update of the version before: %+v, %v, want a conflict", got.Result, got.error)
	}
}

// TestDeleteOfWhatGoesInAnOldView deletes an object that is already being deleted in an outdated view, and
// that was created again since. The new object must be deleted.
func TestDeleteOfWhatGoesInAnOldView(t *testing.T) {
	ahead := newFixture(t)
	lease := &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "l", Finalizers: []string{"example.com/wait"}}}
	key := object.KeyOf(lease)
	ahead.must(t, lease.CloneVT())
	if _, err := ahead.Delete(t.Context(), key, admission.Deletion{}, admission.Options{}); err != nil {
		t.Fatal(err)
	}
	behind, follow := newReplica(t, ahead.store)
	lease.Metadata.Finalizers = nil
	// The update removes the last finalizer.
	if _, err := ahead.Update(t.Context(), lease.CloneVT(), admission.Options{}); err != nil {
		t.Fatal(err)
	}
	ahead.must(t, lease.CloneVT())
	got := whileBehind(t, behind, follow, func() (*admission.Result, error) {
		return behind.Delete(t.Context(), key, admission.Deletion{}, admission.Options{})
	})
	if got.error != nil || !got.Changed {
		t.Fatalf("delete: %+v, %v", got.Result, got.error)
	}
	head, err := ahead.store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := ahead.View.WaitForHead(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	if item := ahead.View.State().Get(key); item != nil {
		t.Errorf("it is still there: %v", item.Object)
	}
}

// TestWriteToAnIncarnationThatAnOldViewLacks checks that a client which read a new incarnation of
// an object on one replica can change and delete it by its UID on another replica that still has the
// former incarnation in its view.
func TestWriteToAnIncarnationThatAnOldViewLacks(t *testing.T) {
	for name, write := range map[string]func(f *fixture, meta *corev1.ObjectMeta) (*admission.Result, error){
		"update": func(f *fixture, meta *corev1.ObjectMeta) (*admission.Result, error) {
			o := &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid()}}
			o.Metadata.Labels = map[string]string{"a": "b"}
			return f.Update(t.Context(), o, admission.Options{})
		},
		"delete": func(f *fixture, meta *corev1.ObjectMeta) (*admission.Result, error) {
			key := object.Key{Kind: "Lease", Namespace: meta.GetNamespace(), Name: meta.GetName()}
			return f.Delete(t.Context(), key, admission.Deletion{UID: meta.GetUid()}, admission.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ahead := newFixture(t)
			lease := &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "l"}}
			ahead.must(t, lease.CloneVT())
			behind, follow := newReplica(t, ahead.store)
			if _, err := ahead.Delete(t.Context(), object.KeyOf(lease), admission.Deletion{}, admission.Options{}); err != nil {
				t.Fatal(err)
			}
			again := ahead.must(t, lease.CloneVT())
			got := whileBehind(t, behind, follow, func() (*admission.Result, error) { return write(behind, again.GetMetadata()) })
			if got.error != nil || !got.Changed {
				t.Errorf("%+v, %v", got.Result, got.error)
			}
		})
	}
}

type outcome struct {
	*admission.Result
	error
}

func updateBehind(t *testing.T, behind *fixture, follow func(), o object.Object) outcome {
	t.Helper()
	return whileBehind(t, behind, follow, func() (*admission.Result, error) {
		return behind.Update(t.Context(), o, admission.Options{})
	})
}

// whileBehind returns the outcome of a write on a replica with an outdated view. The view catches up when
// the write asks the store for its head.
func whileBehind(t *testing.T, behind *fixture, follow func(), write func() (*admission.Result, error)) outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		result, err := write()
		done <- outcome{result, err}
	}()
	select {
	case got := <-done:
		return got
	case <-behind.store.looked:
		follow()
		return kittest.Receive(t, "the write", done)
	}
}

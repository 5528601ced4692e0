package view_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/sqlite"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// fixture is a view on a real store, with the states and changes that it published.
type fixture struct {
	*view.View
	t     *testing.T
	store store.Store
	index *view.Index

	mu       sync.Mutex
	replay   map[object.Key]uint64 // the objects that a follower of the changes has, with their revisions
	revision uint64
	resets   int
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
	f := &fixture{t: t, store: s, replay: map[object.Key]uint64{}}
	f.index = view.NewIndex(func(item *view.Item) []string { return []string{item.Object.GetMetadata().GetLabels()["app"]} })
	host := kittest.Host(t, nil, "")
	f.View, err = view.New(t.Context(), view.Config{
		Store: s, Log: host.Log, Metrics: host.Metrics, Health: host.Health, Indexes: []*view.Index{f.index}, Publish: f.publish, Reset: f.reset,
	})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "view", f.View.Run)
	return f
}

func (f *fixture) publish(state *view.State, changes []*view.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, change := range changes {
		if change.Revision <= f.revision {
			f.t.Errorf("revision %d comes after %d", change.Revision, f.revision)
		}
		f.revision = change.Revision
		old, had := f.replay[change.Last.Key]
		if (change.Old != nil) != had || had && change.Old.Revision != old {
			f.t.Errorf("%s was at %d, the change says %v", change.Last.Key, old, change.Old)
		}
		if change.New == nil {
			delete(f.replay, change.Last.Key)
		} else {
			f.replay[change.Last.Key] = change.New.Revision
		}
	}
	f.revision = state.Revision()
}

func (f *fixture) reset(*view.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resets++
}

func lease(name, app string) *corev1.Lease {
	return &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Uid: "uid-" + name, Labels: map[string]string{"app": app}}}
}

// submit writes and waits until the view has the change.
func (f *fixture) submit(action store.Action, o *corev1.Lease) uint64 {
	f.t.Helper()
	op := store.Op{Action: action, Key: object.KeyOf(o), UID: o.GetMetadata().GetUid()}
	if action != store.Delete {
		data, err := store.Encode(o)
		if err != nil {
			f.t.Fatal(err)
		}
		op.Data = data
	}
	result, err := f.store.Submit(f.t.Context(), op)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.WaitFor(f.t.Context(), result.Revision); err != nil {
		f.t.Fatal(err)
	}
	return result.Revision
}

func names(items iter.Seq[*view.Item]) []string {
	var list []string
	for item := range items {
		list = append(list, item.Key.Name)
	}
	return list
}

func TestViewFollowsTheStore(t *testing.T) {
	f := newFixture(t)
	f.submit(store.Create, lease("b", "x"))
	f.submit(store.Create, lease("a", "y"))
	before := f.State()
	at := f.submit(store.Update, lease("b", "y"))
	item := f.State().Get(object.Key{Kind: "Lease", Namespace: "default", Name: "b"})
	if item == nil || item.Revision != at || item.Object.GetMetadata().GetResourceVersion() != at || item.Object.GetMetadata().GetUid() != "uid-b" {
		t.Fatalf("b = %+v, want revision %d", item, at)
	}
	decoded := &corev1.Lease{}
	if err := decoded.UnmarshalVT(item.Bytes); err != nil || !object.Equal(decoded, item.Object) {
		t.Errorf("the bytes say\n%v, %v\nthe object is\n%v", decoded, err, item.Object)
	}
	if got := len(f.index.Lookup("y")); got != 2 || f.index.Has("x") {
		t.Errorf("the index has %d objects under y, and x: %v", got, f.index.Has("x"))
	}
	f.submit(store.Delete, lease("b", ""))
	if got := names(f.State().All("Lease", "default")); !slices.Equal(got, []string{"a"}) || f.State().Len() != 1 {
		t.Errorf("the view has %v", got)
	}
	if got := names(before.All("Lease", "")); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("an older state has changed: %v", got)
	}
}

// TestFollowersCanReplay compares the objects that a follower derives from the changes with the
// view, after many concurrent writes.
func TestFollowersCanReplay(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := range 30 {
				o := lease(fmt.Sprintf("w%d-%d", w, n%7), "a")
				key := object.KeyOf(o)
				data, err := store.Encode(o)
				if err != nil {
					t.Error(err)
					return
				}
				op := store.Op{Action: store.Create, Key: key, UID: o.GetMetadata().GetUid(), Data: data}
				if n%14 >= 7 {
					op = store.Op{Action: store.Delete, Key: key}
				}
				if _, err := f.store.Submit(context.WithoutCancel(t.Context()), op); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	head, err := f.store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.WaitForHead(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.State()
	if len(f.replay) != state.Len() {
		t.Errorf("the follower has %d objects, the view %d", len(f.replay), state.Len())
	}
	for key, revision := range f.replay {
		if item := state.Get(key); item == nil || item.Revision != revision {
			t.Errorf("%s is at %d for the follower, in the view: %v", key, revision, item)
		}
	}
}

// TestNewEpoch checks that a new epoch alone does not reset the view, and that a replaced history
// does.
func TestNewEpoch(t *testing.T) {
	f := newFixture(t)
	f.submit(store.Create, lease("a", "x"))
	head, err := f.store.NewEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.WaitForHead(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	if f.resets != 0 {
		t.Error("a new epoch with the same objects reset the followers")
	}
	f.mu.Unlock()
	data, err := store.Encode(lease("b", "y"))
	if err != nil {
		t.Fatal(err)
	}
	row := store.Row{Key: object.KeyOf(lease("b", "y")), UID: "uid-b", Revision: 1, Data: data}
	rows := func(yield func(store.Row, error) bool) { yield(row, nil) }
	if err := f.store.Restore(t.Context(), head.Revision, 1, rows); err != nil {
		t.Fatal(err)
	}
	if head, err = f.store.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.WaitForHead(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	if got := names(f.State().All("Lease", "")); !slices.Equal(got, []string{"b"}) || f.index.Has("x") || !f.index.Has("y") {
		t.Errorf("after the restore there are %v", got)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resets != 1 {
		t.Errorf("%d resets, want 1", f.resets)
	}
}

// TestWaitEndsWithItsContext waits for a revision that is never reached.
func TestWaitEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.WaitFor(ctx, 1000); err == nil {
		t.Error("a wait for what never comes succeeded")
	}
}

// flooded is a store in which other processes write continuously until the test stops them.
type flooded struct {
	store.Store
	data    []byte
	stopped atomic.Bool
}

func (s *flooded) Tail(string, uint64, int) ([]store.Record, store.Head) { return nil, store.Head{} }

func (s *flooded) Changes(ctx context.Context, after uint64, _ int) ([]store.Record, store.Head, error) {
	head, err := s.Head(ctx)
	if err != nil || s.stopped.Load() {
		return nil, head, err
	}
	app.Pause(ctx, time.Millisecond)
	head.Revision = after + 1000
	record := store.Record{Revision: after + 1, Type: registryv1.ChangeType_CHANGE_TYPE_PUT, Key: object.KeyOf(lease("l", "a")), UID: "uid-l", Data: s.data}
	return []store.Record{record}, head, nil
}

// TestAViewThatFallsBehindSaysSo checks that a view which reads more slowly than others write is
// not ready and that its age grows, and that it is ready again when it has caught up.
func TestAViewThatFallsBehindSaysSo(t *testing.T) {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	data, err := store.Encode(lease("l", "a"))
	if err != nil {
		t.Fatal(err)
	}
	others := &flooded{Store: s, data: data}
	host := kittest.Host(t, nil, "")
	metrics := prometheus.NewRegistry()
	v, err := view.New(t.Context(), view.Config{Store: others, Log: host.Log, Metrics: metrics, Health: host.Health})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "view", v.Run)
	kittest.Eventually(t, "the view says that it is behind", func() error {
		if err := host.Health.Ready(); err == nil || !strings.Contains(err.Error(), "behind the store") {
			return fmt.Errorf("ready: %w", err)
		}
		return nil
	})
	if age := gauge(t, metrics, "portolan_registry_view_age_seconds"); age < 3 {
		t.Errorf("a view that is behind is %g s old", age)
	}
	if err := v.WaitFor(t.Context(), v.State().Revision()+3); err != nil {
		t.Errorf("a read that waits for what comes next: %v", err)
	}
	others.stopped.Store(true)
	kittest.Eventually(t, "the view has caught up", host.Health.Ready)
}

// gauge returns the value of a metric.
func gauge(t *testing.T, metrics prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

package view_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/registry/store"
	"portolan.dev/registry/store/sqlite"
	"portolan.dev/registry/view"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// fixture is a view on a real store, and what it told its followers.
type fixture struct {
	*view.View
	t     *testing.T
	store store.Store
	index *view.Index

	mu       sync.Mutex
	replay   map[object.Key]uint64 // what a follower of the changes has, by version
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

// submit writes and waits until the view has it.
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

// TestFollowersCanReplay compares what a follower of the changes has with the view, after many concurrent writes.
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

// TestNewEpoch: an epoch alone disturbs nobody; a replaced history does.
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

// TestWaitEndsWithItsContext waits for what never comes.
func TestWaitEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.WaitFor(ctx, 1000); err == nil {
		t.Error("a wait for what never comes succeeded")
	}
}

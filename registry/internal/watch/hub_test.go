package watch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/response"
	"portolan.dev/registry/internal/sqlite"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/internal/watch"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestHistoryIsBoundedInBytes publishes large changes of one kind, and a few small changes of
// another kind, which must stay.
func TestHistoryIsBoundedInBytes(t *testing.T) {
	const size, limit = 100_000, 4_000_000
	hub := watch.NewHub(view.StateAt(0), watch.Limits{Changes: 10_000, Bytes: limit})
	publish := func(revision uint64, kind string, size int) {
		item := &view.Item{Key: object.Key{Kind: kind, Name: "x"}, Revision: revision, Bytes: make([]byte, size)}
		change := &view.Change{Revision: revision, Type: registryv1.ChangeType_CHANGE_TYPE_PUT, New: item, Last: item}
		hub.Publish(view.StateAt(revision), []*view.Change{change})
	}
	hub.Now("Service") // both kinds are watched
	hub.Now("Pod")
	publish(1, "Service", 100)
	publish(2, "Service", 100)
	for revision := uint64(3); revision <= 1000; revision++ {
		publish(revision, "Pod", size)
		if got := hub.Bytes(); got > limit {
			t.Fatalf("after revision %d the history takes %d bytes, more than %d", revision, got, limit)
		}
	}
	if _, ok := hub.Cursor("Service", 0); !ok {
		t.Error("changes of services are forgotten because of the pods")
	}
	if _, ok := hub.Cursor("Pod", 3); ok {
		t.Error("the oldest changes of pods are still there")
	}
	if _, ok := hub.Cursor("Pod", 999); !ok {
		t.Error("the newest change of pods is not there")
	}
	publish(1001, "Pod", 2*limit)
	if _, ok := hub.Cursor("Pod", 1000); !ok {
		t.Error("a change larger than the limit cannot be watched")
	}
}

// TestCursors publishes batches of any size and lets cursors start and read at any time. Each
// cursor must return every change of its kind after its start once and in order, or an error.
func TestCursors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		hub := watch.NewHub(view.StateAt(0), watch.Limits{Changes: limit, Bytes: 1 << 20})
		published := map[string][]uint64{} // revisions by kind
		revision := uint64(0)
		type reader struct {
			cursor *watch.Cursor
			kind   string
			after  uint64
		}
		var readers []*reader
		kinds := []string{"Pod", "Lease"}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"publish", "begin", "read"}).Draw(t, "step") {
			case "publish":
				var changes []*view.Change
				for range rapid.IntRange(0, 4).Draw(t, "changes") {
					revision++
					kind := rapid.SampledFrom(kinds).Draw(t, "kind")
					item := &view.Item{Key: object.Key{Kind: kind, Name: "x"}, Revision: revision}
					changes = append(changes, &view.Change{Revision: revision, Type: registryv1.ChangeType_CHANGE_TYPE_PUT, New: item, Last: item})
					published[kind] = append(published[kind], revision)
				}
				hub.Publish(view.StateAt(revision), changes)
			case "begin":
				kind := rapid.SampledFrom(kinds).Draw(t, "kind")
				from := rapid.Uint64Range(0, revision).Draw(t, "from")
				cursor, ok := hub.Cursor(kind, from)
				if !ok {
					if countAfter(published[kind], from) == 0 {
						t.Fatalf("no cursor after %d, though nothing of kind %s came since", from, kind)
					}
					continue
				}
				readers = append(readers, &reader{cursor, kind, from})
			case "read":
				if len(readers) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(readers)-1).Draw(t, "reader")
				r := readers[i]
				got, upTo, err := r.cursor.Poll()
				if errors.Is(err, watch.ErrTooSlow) {
					if countAfter(published[r.kind], r.after) <= 1 {
						t.Fatal("a reader that is one change behind is called slow")
					}
					readers = append(readers[:i], readers[i+1:]...)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				var want []uint64
				for _, one := range published[r.kind] {
					if one > r.after {
						want = append(want, one)
					}
				}
				var seen []uint64
				for _, one := range got {
					if one > r.after {
						seen = append(seen, one)
					}
				}
				if fmt.Sprint(seen) != fmt.Sprint(want) || upTo != revision {
					t.Fatalf("a reader after %d got %v up to %d, want %v up to %d", r.after, seen, upTo, want, revision)
				}
				r.after = upTo
			}
		}
	})
}

func countAfter(revisions []uint64, after uint64) int {
	n := 0
	for _, revision := range revisions {
		if revision > after {
			n++
		}
	}
	return n
}

// followed returns a store, a view of it, and a hub that keeps limit changes of each kind.
func followed(t *testing.T, limit int) (store.Store, *view.View, *watch.Hub) {
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
	host := kittest.Host(t, nil, "")
	var hub *watch.Hub
	v, err := view.New(t.Context(), view.Config{
		Store: s, Log: host.Log, Metrics: host.Metrics, Health: host.Health,
		Publish: func(state *view.State, changes []*view.Change) { hub.Publish(state, changes) },
		Reset:   func(state *view.State) { hub.Reset(state) },
	})
	if err != nil {
		t.Fatal(err)
	}
	hub = watch.NewHub(v.State(), watch.Limits{Changes: limit, Bytes: 1 << 30})
	kittest.Run(t, "view", v.Run)
	return s, v, hub
}

// TestOneEncodingForAllWatchers checks that watches without a filter send the same memory.
func TestOneEncodingForAllWatchers(t *testing.T) {
	s, v, hub := followed(t, 100)
	streamer := &watch.Streamer{View: v, Hub: hub, Store: s, BookmarkEvery: 1 << 40, Dropped: watch.NewDropped(prometheus.NewRegistry())}
	const watchers = 50
	changes := make(chan []byte, 10*watchers)
	ready := make(chan struct{}, watchers)
	for range watchers {
		kittest.Run(t, "watch", func(ctx context.Context) error {
			first := true
			return streamer.Watch(ctx, "Lease", 0, watch.Filter{}, func(m *response.Message) error {
				if first {
					first = false
					ready <- struct{}{}
					return nil
				}
				changes <- m.Part(0)
				return nil
			})
		})
	}
	for range watchers {
		kittest.Receive(t, "a watch that is ready", ready)
	}
	write(t, s, store.Create, "l")
	var shared *byte
	for range watchers {
		part := kittest.Receive(t, "the change", changes)
		if shared == nil {
			shared = &part[0]
		}
		if &part[0] != shared {
			t.Fatal("a watcher has an encoding of its own")
		}
	}
	if apierr.Code(v.WaitFor(t.Context(), 1)) != 0 {
		t.Error("the view has not reached the change that it published")
	}
}

// write stores or deletes a lease and returns the revision of the change.
func write(t *testing.T, s store.Store, action store.Action, name string) uint64 {
	t.Helper()
	lease := &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Uid: "u"}}
	op := store.Op{Action: action, Key: object.KeyOf(lease), UID: "u"}
	if action != store.Delete {
		data, err := store.Encode(lease)
		if err != nil {
			t.Fatal(err)
		}
		op.Data = data
	}
	result, err := s.Submit(t.Context(), op)
	if err != nil {
		t.Fatal(err)
	}
	return result.Revision
}

// versions returns the objects of a state by name, with their revisions.
func versions(state *view.State) string {
	var all []string
	for item := range state.All("Lease", "") {
		all = append(all, fmt.Sprintf("%s@%d", item.Key.Name, item.Revision))
	}
	return fmt.Sprint(state.Revision(), all)
}

// TestThePastComesBack rebuilds every revision that the ring reaches from the newest state, and
// checks that older revisions are refused.
func TestThePastComesBack(t *testing.T) {
	const limit = 20
	s, v, hub := followed(t, limit)
	epoch := v.State().Epoch()
	was := map[uint64]string{0: versions(v.State())}
	there := map[string]bool{}
	head := uint64(0)
	for range 3 * limit {
		name := string(rune('a' + rand.IntN(8)))
		action := store.Create
		switch {
		case there[name] && rand.IntN(2) == 0:
			action = store.Update
		case there[name]:
			action = store.Delete
		}
		there[name] = action != store.Delete
		head = write(t, s, action, name)
		if err := v.WaitFor(t.Context(), head); err != nil {
			t.Fatal(err)
		}
		was[head] = versions(v.State())
	}
	kittest.Eventually(t, "the newest revision is published", func() error {
		_, err := hub.At("Lease", epoch, head)
		return err
	})
	for revision, want := range was {
		state, err := hub.At("Lease", epoch, revision)
		if revision < head-limit {
			if !errors.Is(err, watch.ErrForgotten) {
				t.Errorf("revision %d of %d: %v", revision, head, err)
			}
			continue
		}
		if err != nil || versions(state) != want {
			t.Errorf("revision %d: %v, want %s", revision, err, want)
		}
	}
	if state, err := hub.At("Pod", epoch, head-limit); err != nil || state.Len() != 0 || state.Revision() != head-limit {
		t.Errorf("a kind without changes: %v", err)
	}
	if _, err := hub.At("Lease", epoch, head+1); !errors.Is(err, watch.ErrAhead) {
		t.Errorf("a revision to come: %v", err)
	}
	if _, err := hub.At("Lease", "another", head); !errors.Is(err, watch.ErrForgotten) {
		t.Errorf("another epoch: %v", err)
	}
}

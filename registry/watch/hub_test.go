package watch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	corev1 "portolan.dev/proto/portolan/core/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/registry/store"
	"portolan.dev/registry/store/sqlite"
	"portolan.dev/registry/view"
	"portolan.dev/registry/watch"
	"portolan.dev/registry/wire"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestCursors publishes steps of any size and lets cursors begin and read at any time: each sees every change of its kind after its beginning once and in
// order, or is told that it cannot.
func TestCursors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		hub := watch.NewHub(0, limit)
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
				if errors.Is(err, watch.ErrSlow) {
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

// TestOneEncodingForAllWatchers: what watchers without a filter are sent is the same memory.
func TestOneEncodingForAllWatchers(t *testing.T) {
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
	hub := watch.NewHub(0, 100)
	v, err := view.New(t.Context(), view.Config{
		Store: s, Log: host.Log, Metrics: host.Metrics, Health: host.Health, Publish: hub.Publish, Reset: hub.Reset,
	})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "view", v.Run)
	streamer := &watch.Streamer{View: v, Hub: hub, Store: s, BookmarkEvery: 1 << 40, Dropped: watch.NewDropped(host.Metrics)}
	const watchers = 50
	messages := make(chan *wire.Message, 10*watchers)
	ready := make(chan struct{}, watchers)
	for range watchers {
		kittest.Run(t, "watch", func(ctx context.Context) error {
			first := true
			return streamer.Watch(ctx, "Lease", 0, watch.Filter{}, func(m *wire.Message) error {
				if first {
					first = false
					ready <- struct{}{}
					return nil
				}
				messages <- m
				return nil
			})
		})
	}
	for range watchers {
		kittest.Receive(t, "a watch that is ready", ready)
	}
	lease := &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "l", Uid: "u"}}
	data, err := store.Encode(lease)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Submit(t.Context(), store.Op{Action: store.Create, Key: object.KeyOf(lease), UID: "u", Data: data}); err != nil {
		t.Fatal(err)
	}
	var shared *byte
	for range watchers {
		part := kittest.Receive(t, "the change", messages).Part(0)
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

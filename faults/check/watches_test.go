package check

import (
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// watchPods adds a watcher of pods that begins with an empty snapshot at revision 0.
func watchPods(batches ...history.Batch) func(*historyBuilder) {
	return func(s *historyBuilder) {
		empty := history.Batch{At: second(0), Snapshot: true}
		s.Watches = append(s.Watches, history.Watch{Watcher: "w", Kinds: []string{"Pod"}, Batches: append([]history.Batch{empty}, batches...)})
	}
}

func batch(revision uint64, events ...history.WatchEvent) history.Batch {
	return history.Batch{At: second(float64(revision) + 0.1), Revision: revision, Events: events}
}

func event(revision uint64, deleted bool, o object.Object) history.WatchEvent {
	o = object.Clone(o)
	object.MetaOf(o).ResourceVersion = revision
	return history.WatchEvent{Revision: revision, Deleted: deleted, Object: o}
}

func TestWatches(t *testing.T) {
	a, b := pod("u", "a"), pod("u", "b")
	node := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n"}}
	log := func(s *historyBuilder) {
		for _, part := range []func(*historyBuilder){put(a), put(node), put(b), del(b)} {
			part(s)
		}
	}
	first, second, third := event(1, false, a), event(3, false, b), event(4, true, b)
	lastVersion := event(4, true, b)
	object.MetaOf(lastVersion.Object).ResourceVersion = 3
	snapshot := func(revision uint64, events ...history.WatchEvent) history.Batch {
		b := batch(revision, events...)
		b.Snapshot = true
		return b
	}
	runTests(t, []checkerTest{
		{"all changes", Watches{CaughtUp: true}, build(log, watchPods(batch(1, first), batch(2), batch(4, second, third))), ""},
		{"a deletion with the revision before", Watches{}, build(log, watchPods(batch(3, first, second), batch(4, lastVersion))), ""},
		{"changes after the log's head", Watches{}, build(put(a), watchPods(batch(1, first), batch(3, second))), ""},
		{"a missed revision", Watches{}, build(log, watchPods(batch(4, first, third))), "w missed revision 3"},
		{"a missed revision at the end", Watches{}, build(log, watchPods(batch(4, first, second))), "w missed revision 4"},
		{"a revision twice", Watches{}, build(log, watchPods(batch(1, first), batch(3, first, second))), "w received revision 1 twice"},
		{"out of order", Watches{}, build(log, watchPods(batch(3, second, first))), "w missed revision 1"},
		{"backwards", Watches{}, build(log, watchPods(batch(3, first, second), batch(1))), "w went back from revision 3 to 1"},
		{"another content", Watches{}, build(log, watchPods(batch(1, event(1, false, b)))), "another content at revision 1"},
		{"no deletion", Watches{}, build(log, watchPods(batch(3, first, second), batch(4, event(4, false, b)))), "as deletion: false, in the log: true"},
		{"another object", Watches{}, build(log, watchPods(batch(1, event(1, false, node)))), "another object at revision 1"},
		{"behind", Watches{}, build(log, watchPods(batch(3, first, second))), ""},
		{"behind at rest", Watches{CaughtUp: true}, build(log, watchPods(batch(3, first, second))), "w has received changes up to revision 3, the last change of its kinds is at revision 4"},
		{"a snapshot", Watches{}, build(log, watchPods(snapshot(3, second), batch(4, third))), ""},
		{"a snapshot without an object", Watches{}, build(log, watchPods(snapshot(3))), "the snapshot of w at revision 3 lacks the object"},
		{"a snapshot with a deleted object", Watches{}, build(log, watchPods(snapshot(4, second))), "the snapshot of w at revision 4 has the object"},
		{"a snapshot with an old version", Watches{}, build(log, watchPods(snapshot(3, first))), "the snapshot of w has version 1 at revision 3"},
		{"changes without a snapshot", Watches{}, build(log, func(s *historyBuilder) {
			s.Watches = []history.Watch{{Watcher: "w", Batches: []history.Batch{batch(1, first)}}}
		}), "before a snapshot"},
	})
}

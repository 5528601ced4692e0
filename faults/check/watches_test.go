package check

import (
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// reads adds a watcher of pods that begins at revision 0, where there is nothing.
func reads(batches ...history.Batch) func(*story) {
	return func(s *story) {
		empty := history.Batch{At: second(0), Snapshot: true}
		s.Readings = append(s.Readings, history.Reading{Watcher: "w", Kinds: []string{"Pod"}, Batches: append([]history.Batch{empty}, batches...)})
	}
}

func batch(revision uint64, seen ...history.Seen) history.Batch {
	return history.Batch{At: second(float64(revision) + 0.1), Revision: revision, Seen: seen}
}

func seen(revision uint64, deleted bool, o object.Object) history.Seen {
	o = object.Clone(o)
	object.MetaOf(o).ResourceVersion = revision
	return history.Seen{Revision: revision, Deleted: deleted, Object: o}
}

func TestWatches(t *testing.T) {
	a, b := pod("u", "a"), pod("u", "b")
	node := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n"}}
	log := func(s *story) {
		for _, part := range []func(*story){put(a), put(node), put(b), del(b)} {
			part(s)
		}
	}
	first, second, third := seen(1, false, a), seen(3, false, b), seen(4, true, b)
	asBefore := seen(4, true, b)
	object.MetaOf(asBefore.Object).ResourceVersion = 3
	snapshot := func(revision uint64, seen ...history.Seen) history.Batch {
		b := batch(revision, seen...)
		b.Snapshot = true
		return b
	}
	demand(t, []verdict{
		{"all", Watches{CaughtUp: true}, tell(log, reads(batch(1, first), batch(2), batch(4, second, third))), ""},
		{"a deletion as it was before", Watches{}, tell(log, reads(batch(3, first, second), batch(4, asBefore))), ""},
		{"more than the log that was read", Watches{}, tell(put(a), reads(batch(1, first), batch(3, second))), ""},
		{"a missed revision", Watches{}, tell(log, reads(batch(4, first, third))), "w missed revision 3"},
		{"a missed revision at the end", Watches{}, tell(log, reads(batch(4, first, second))), "w missed revision 4"},
		{"a revision twice", Watches{}, tell(log, reads(batch(1, first), batch(3, first, second))), "w saw revision 1 again"},
		{"out of order", Watches{}, tell(log, reads(batch(3, second, first))), "w missed revision 1"},
		{"back", Watches{}, tell(log, reads(batch(3, first, second), batch(1))), "w went back from revision 3 to 1"},
		{"another content", Watches{}, tell(log, reads(batch(1, seen(1, false, b)))), "another content at revision 1"},
		{"no deletion", Watches{}, tell(log, reads(batch(3, first, second), batch(4, seen(4, false, b)))), "as deletion: false, the log says true"},
		{"another object", Watches{}, tell(log, reads(batch(1, seen(1, false, node)))), "another object at revision 1"},
		{"behind", Watches{}, tell(log, reads(batch(3, first, second))), ""},
		{"behind at rest", Watches{CaughtUp: true}, tell(log, reads(batch(3, first, second))), "w stopped at revision 3, the last change for it is revision 4"},
		{"present objects", Watches{}, tell(log, reads(snapshot(3, second), batch(4, third))), ""},
		{"a present object missing", Watches{}, tell(log, reads(snapshot(3))), "was not told that it is there at revision 3"},
		{"a present object too many", Watches{}, tell(log, reads(snapshot(4, second))), "was told that it is there at revision 4"},
		{"a present object of old", Watches{}, tell(log, reads(snapshot(3, first))), "was told version 1 at revision 3"},
		{"nothing present told", Watches{}, tell(log, func(s *story) {
			s.Readings = []history.Reading{{Watcher: "w", Batches: []history.Batch{batch(1, first)}}}
		}), "before it was told what is present"},
	})
}

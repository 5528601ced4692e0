package check

import (
	"cmp"
	"slices"

	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// Watches checks that every watcher saw each change of its kinds once, in order and as the log has
// it, through all its reconnects. It also checks that each snapshot which a watcher received has
// the objects of one revision.
type Watches struct {
	// CaughtUp demands that every watcher that still reads has reached the log's head. It is for
	// histories that end at rest.
	CaughtUp bool
}

// Name implements Checker.
func (Watches) Name() string { return "watches" }

// Check implements Checker.
func (c Watches) Check(h *history.History) []Finding {
	x := &findings{check: c.Name()}
	steps := slices.Collect(h.Log.Steps())
	for _, r := range h.Readings {
		w := &watched{findings: x, reading: r, log: &h.Log, steps: steps, kinds: kindSet(r.Kinds)}
		for _, b := range r.Batches {
			w.take(b)
		}
		if c.CaughtUp && !r.Over {
			w.caughtUp()
		}
	}
	return x.all()
}

func kindSet(kinds []string) map[string]bool {
	set := map[string]bool{}
	for _, k := range kinds {
		set[k] = true
	}
	return set
}

// watched is the comparison of one reading with the log.
type watched struct {
	*findings
	reading history.Reading
	log     *history.Log
	steps   []history.Step
	kinds   map[string]bool // empty: all
	began   bool
	at      uint64 // complete up to here
}

func (w *watched) wants(key object.Key) bool { return len(w.kinds) == 0 || w.kinds[key.Kind] }

func (w *watched) take(b history.Batch) {
	switch {
	case b.Revision > w.log.Head():
		return // the log was read before
	case b.Snapshot:
		w.snapshot(b)
	case !w.began:
		w.add(object.Key{}, "%s: changes at revision %d, before it was told what is present", w.reading.Watcher, b.Revision)
		return
	case b.Revision < w.at:
		w.add(object.Key{}, "%s went back from revision %d to %d", w.reading.Watcher, w.at, b.Revision)
	default:
		w.changes(b)
	}
	w.began, w.at = true, b.Revision
}

// snapshot compares a snapshot with the objects of the log at its revision.
func (w *watched) snapshot(b history.Batch) {
	if b.Revision < w.log.Base {
		return // the log does not go back that far
	}
	want := w.log.Initial()
	for _, s := range w.steps[:w.place(b.Revision)] {
		if s.New == nil {
			delete(want, s.Key)
			continue
		}
		want[s.Key] = s.New
	}
	for _, s := range b.Seen {
		key := object.KeyOf(s.Object)
		switch o := want[key]; {
		case o == nil:
			w.add(key, "%s was told that it is there at revision %d, which it is not", w.reading.Watcher, b.Revision)
		case !object.Equal(o, s.Object):
			w.add(key, "%s was told version %d at revision %d, the log has version %d, or another content of it", w.reading.Watcher,
				s.Object.GetMetadata().GetResourceVersion(), b.Revision, o.GetMetadata().GetResourceVersion())
		}
		delete(want, key)
	}
	for key := range want {
		if w.wants(key) {
			w.add(key, "%s was not told that it is there at revision %d", w.reading.Watcher, b.Revision)
		}
	}
}

// place returns how many steps there are up to a revision.
func (w *watched) place(revision uint64) int {
	n, found := slices.BinarySearchFunc(w.steps, revision, func(s history.Step, r uint64) int { return cmp.Compare(s.Revision, r) })
	if found {
		n++
	}
	return n
}

// changes compares the changes that a watcher saw with the log.
func (w *watched) changes(b history.Batch) {
	seen := b.Seen
	for len(seen) > 0 && seen[0].Revision <= w.log.Base && seen[0].Revision > w.at { // the log does not go back that far
		seen = seen[1:]
	}
	for _, s := range w.steps[w.place(w.at):w.place(b.Revision)] {
		if !w.wants(s.Key) {
			continue
		}
		if len(seen) == 0 || seen[0].Revision != s.Revision {
			if len(seen) > 0 && seen[0].Revision < s.Revision {
				break // reported below
			}
			w.add(s.Key, "%s missed revision %d", w.reading.Watcher, s.Revision)
			continue
		}
		w.compare(s, seen[0])
		seen = seen[1:]
	}
	for _, s := range seen {
		w.add(object.KeyOf(s.Object), "%s saw revision %d again, out of order, or though the log has nothing there for it",
			w.reading.Watcher, s.Revision)
	}
}

// compare compares one change with the log.
func (w *watched) compare(want history.Step, got history.Seen) {
	o, deleted := want.New, want.New == nil
	if deleted {
		o = want.Old
	}
	switch {
	case got.Deleted != deleted:
		w.add(want.Key, "%s saw revision %d as deletion: %v, the log says %v", w.reading.Watcher, want.Revision, got.Deleted, deleted)
	case got.Object == nil || object.KeyOf(got.Object) != want.Key:
		w.add(want.Key, "%s saw another object at revision %d", w.reading.Watcher, want.Revision)
	case o != nil && !object.Equal(o, got.Object) && !(deleted && lastWas(o, got.Object, want.Revision)):
		w.add(want.Key, "%s saw another content at revision %d:\n\t%v\n\tthe log has\n\t%v", w.reading.Watcher, want.Revision, got.Object, o)
	}
}

// lastWas reports whether a deleted object is as it last was but for its version, which may be that
// of the deletion.
func lastWas(o, deleted object.Object, revision uint64) bool {
	if deleted.GetMetadata().GetResourceVersion() != revision {
		return false
	}
	last := object.Clone(o)
	object.MetaOf(last).ResourceVersion = revision
	return object.Equal(last, deleted)
}

// caughtUp demands that the watcher is at the head.
func (w *watched) caughtUp() {
	for _, s := range slices.Backward(w.steps) {
		if !w.wants(s.Key) {
			continue
		}
		if w.at < s.Revision {
			w.add(s.Key, "%s stopped at revision %d, the last change for it is revision %d", w.reading.Watcher, w.at, s.Revision)
		}
		return
	}
}

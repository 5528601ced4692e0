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
	for _, r := range h.Watches {
		w := &watchChecker{findings: x, watch: r, log: &h.Log, steps: steps, kinds: kindSet(r.Kinds)}
		for _, b := range r.Batches {
			w.checkBatch(b)
		}
		if c.CaughtUp && !r.Stopped {
			w.checkCaughtUp()
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
type watchChecker struct {
	*findings
	watch    history.Watch
	log      *history.Log
	steps    []history.Step
	kinds    map[string]bool // empty: all
	started  bool
	revision uint64 // complete up to here
}

func (w *watchChecker) includes(key object.Key) bool { return len(w.kinds) == 0 || w.kinds[key.Kind] }

func (w *watchChecker) checkBatch(b history.Batch) {
	switch {
	case b.Revision > w.log.Head():
		return // the log was read before
	case b.Snapshot:
		w.checkSnapshot(b)
	case !w.started:
		w.add(object.Key{}, "%s: changes at revision %d, before it was told what is present", w.watch.Watcher, b.Revision)
		return
	case b.Revision < w.revision:
		w.add(object.Key{}, "%s went back from revision %d to %d", w.watch.Watcher, w.revision, b.Revision)
	default:
		w.checkChanges(b)
	}
	w.started, w.revision = true, b.Revision
}

// snapshot compares a snapshot with the objects of the log at its revision.
func (w *watchChecker) checkSnapshot(b history.Batch) {
	if b.Revision < w.log.Base {
		return // the log does not go back that far
	}
	want := w.log.Initial()
	for _, s := range w.steps[:w.stepsUntil(b.Revision)] {
		if s.New == nil {
			delete(want, s.Key)
			continue
		}
		want[s.Key] = s.New
	}
	for _, s := range b.Events {
		key := object.KeyOf(s.Object)
		switch o := want[key]; {
		case o == nil:
			w.add(key, "%s was told that it is there at revision %d, which it is not", w.watch.Watcher, b.Revision)
		case !object.Equal(o, s.Object):
			w.add(key, "%s was told version %d at revision %d, the log has version %d, or another content of it", w.watch.Watcher,
				s.Object.GetMetadata().GetResourceVersion(), b.Revision, o.GetMetadata().GetResourceVersion())
		}
		delete(want, key)
	}
	for key := range want {
		if w.includes(key) {
			w.add(key, "%s was not told that it is there at revision %d", w.watch.Watcher, b.Revision)
		}
	}
}

// place returns how many steps there are up to a revision.
func (w *watchChecker) stepsUntil(revision uint64) int {
	n, found := slices.BinarySearchFunc(w.steps, revision, func(s history.Step, r uint64) int { return cmp.Compare(s.Revision, r) })
	if found {
		n++
	}
	return n
}

// changes compares the changes that a watcher saw with the log.
func (w *watchChecker) checkChanges(b history.Batch) {
	events := b.Events
	for len(events) > 0 && events[0].Revision <= w.log.Base && events[0].Revision > w.revision { // the log does not go back that far
		events = events[1:]
	}
	for _, s := range w.steps[w.stepsUntil(w.revision):w.stepsUntil(b.Revision)] {
		if !w.includes(s.Key) {
			continue
		}
		if len(events) == 0 || events[0].Revision != s.Revision {
			if len(events) > 0 && events[0].Revision < s.Revision {
				break // reported below
			}
			w.add(s.Key, "%s missed revision %d", w.watch.Watcher, s.Revision)
			continue
		}
		w.checkEvent(s, events[0])
		events = events[1:]
	}
	for _, s := range events {
		w.add(object.KeyOf(s.Object), "%s saw revision %d again, out of order, or though the log has nothing there for it",
			w.watch.Watcher, s.Revision)
	}
}

// compare compares one change with the log.
func (w *watchChecker) checkEvent(want history.Step, got history.WatchEvent) {
	o, deleted := want.New, want.New == nil
	if deleted {
		o = want.Old
	}
	switch {
	case got.Deleted != deleted:
		w.add(want.Key, "%s saw revision %d as deletion: %v, the log says %v", w.watch.Watcher, want.Revision, got.Deleted, deleted)
	case got.Object == nil || object.KeyOf(got.Object) != want.Key:
		w.add(want.Key, "%s saw another object at revision %d", w.watch.Watcher, want.Revision)
	case o != nil && !object.Equal(o, got.Object) && !(deleted && equalsLastVersion(o, got.Object, want.Revision)):
		w.add(want.Key, "%s saw another content at revision %d:\n\t%v\n\tthe log has\n\t%v", w.watch.Watcher, want.Revision, got.Object, o)
	}
}

// lastWas reports whether a deleted object is as it last was but for its version, which may be that
// of the deletion.
func equalsLastVersion(o, deleted object.Object, revision uint64) bool {
	if deleted.GetMetadata().GetResourceVersion() != revision {
		return false
	}
	last := object.Clone(o)
	object.MetaOf(last).ResourceVersion = revision
	return object.Equal(last, deleted)
}

// caughtUp demands that the watcher is at the head.
func (w *watchChecker) checkCaughtUp() {
	for _, s := range slices.Backward(w.steps) {
		if !w.includes(s.Key) {
			continue
		}
		if w.revision < s.Revision {
			w.add(s.Key, "%s stopped at revision %d, the last change for it is revision %d", w.watch.Watcher, w.revision, s.Revision)
		}
		return
	}
}

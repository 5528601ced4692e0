package check

import (
	"cmp"
	"slices"

	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// Watches checks that every watcher received each change of its kinds once, in order and as it is
// in the log, across all its reconnects. It also checks that each snapshot has exactly the objects
// of its revision.
type Watches struct {
	// CaughtUp demands that every watcher that has not stopped has reached the log's head. Set it
	// for histories that end at rest.
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

// watchChecker compares the record of one watcher with the log.
type watchChecker struct {
	*findings
	watch    history.Watch
	log      *history.Log
	steps    []history.Step
	kinds    map[string]bool // empty means all
	started  bool
	revision uint64 // up to which the watcher has received all changes
}

func (w *watchChecker) includes(key object.Key) bool { return len(w.kinds) == 0 || w.kinds[key.Kind] }

func (w *watchChecker) checkBatch(b history.Batch) {
	switch {
	case b.Revision > w.log.Head():
		return // committed after the log was read
	case b.Snapshot:
		w.checkSnapshot(b)
	case !w.started:
		w.add(object.Key{}, "%s received changes at revision %d before a snapshot", w.watch.Watcher, b.Revision)
		return
	case b.Revision < w.revision:
		w.add(object.Key{}, "%s went back from revision %d to %d", w.watch.Watcher, w.revision, b.Revision)
	default:
		w.checkChanges(b)
	}
	w.started, w.revision = true, b.Revision
}

// checkSnapshot compares a snapshot with the objects of the log at the same revision.
func (w *watchChecker) checkSnapshot(b history.Batch) {
	if b.Revision < w.log.Base {
		return // before the beginning of the log
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
			w.add(key, "the snapshot of %s at revision %d has the object, the log does not", w.watch.Watcher, b.Revision)
		case !object.Equal(o, s.Object):
			w.add(key, "the snapshot of %s has version %d at revision %d, the log has version %d, or the content differs", w.watch.Watcher,
				s.Object.GetMetadata().GetResourceVersion(), b.Revision, o.GetMetadata().GetResourceVersion())
		}
		delete(want, key)
	}
	for key := range want {
		if w.includes(key) {
			w.add(key, "the snapshot of %s at revision %d lacks the object", w.watch.Watcher, b.Revision)
		}
	}
}

// stepsUntil returns the number of steps up to a revision.
func (w *watchChecker) stepsUntil(revision uint64) int {
	n, found := slices.BinarySearchFunc(w.steps, revision, func(s history.Step, r uint64) int { return cmp.Compare(s.Revision, r) })
	if found {
		n++
	}
	return n
}

// checkChanges compares the changes of a batch with the log.
func (w *watchChecker) checkChanges(b history.Batch) {
	events := b.Events
	for len(events) > 0 && events[0].Revision <= w.log.Base && events[0].Revision > w.revision { // before the beginning of the log
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
		w.add(object.KeyOf(s.Object), "%s received revision %d twice, out of order, or without a change of its kinds in the log",
			w.watch.Watcher, s.Revision)
	}
}

// checkEvent compares one change with the log.
func (w *watchChecker) checkEvent(want history.Step, got history.WatchEvent) {
	o, deleted := want.New, want.New == nil
	if deleted {
		o = want.Old
	}
	switch {
	case got.Deleted != deleted:
		w.add(want.Key, "%s received revision %d as deletion: %v, in the log: %v", w.watch.Watcher, want.Revision, got.Deleted, deleted)
	case got.Object == nil || object.KeyOf(got.Object) != want.Key:
		w.add(want.Key, "%s received another object at revision %d", w.watch.Watcher, want.Revision)
	case o != nil && !object.Equal(o, got.Object) && !(deleted && equalsLastVersion(o, got.Object, want.Revision)):
		w.add(want.Key, "%s received another content at revision %d:\n\t%v\n\tthe log has\n\t%v", w.watch.Watcher, want.Revision, got.Object, o)
	}
}

// equalsLastVersion reports whether a deleted object equals its last version, except that its
// resource version is the revision of the deletion.
func equalsLastVersion(o, deleted object.Object, revision uint64) bool {
	if deleted.GetMetadata().GetResourceVersion() != revision {
		return false
	}
	last := object.Clone(o)
	object.MetaOf(last).ResourceVersion = revision
	return object.Equal(last, deleted)
}

// checkCaughtUp reports a watcher that has not received the last change of its kinds.
func (w *watchChecker) checkCaughtUp() {
	for _, s := range slices.Backward(w.steps) {
		if !w.includes(s.Key) {
			continue
		}
		if w.revision < s.Revision {
			w.add(s.Key, "%s has received changes up to revision %d, the last change of its kinds is at revision %d", w.watch.Watcher, w.revision, s.Revision)
		}
		return
	}
}

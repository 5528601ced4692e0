package check

import (
	"cmp"
	"slices"
	"time"

	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// Order checks that revisions have no gaps, and that they are in the order of real time: a write
// that began after another one was acknowledged has the greater revision.
type Order struct{}

// Name implements Checker.
func (Order) Name() string { return "order of revisions" }

// Check implements Checker.
func (c Order) Check(h *history.History) []Finding {
	x := findings{check: c.Name()}
	last := h.Log.Base
	for _, change := range h.Log.Changes {
		o := object.Unwrap(change.GetObject())
		var key object.Key
		if o != nil {
			key = object.KeyOf(o)
		}
		if change.GetRevision() != last+1 {
			x.add(key, "revision %d follows %d in the log", change.GetRevision(), last)
		}
		last = change.GetRevision()
	}
	checkRealTime(h, &x)
	return x.all()
}

// timedRevision is a revision with the time at which a client received it, or at which the write
// that made it began.
type timedRevision struct {
	at       time.Time
	revision uint64
	call     *history.Call
}

// checkRealTime compares the beginnings of writes with the ends of all calls.
func checkRealTime(h *history.History, x *findings) {
	var ends, begins []timedRevision
	deleted := deletionRevisions(&h.Log)
	for i := range h.Calls {
		c := &h.Calls[i]
		if c.Outcome != history.OK {
			continue
		}
		revision := c.Result.Revision
		if c.Verb == history.Delete {
			if revision = deleted[c.Result.UID]; revision == 0 {
				continue // Writes reports it
			}
		}
		ends = append(ends, timedRevision{c.Ended, revision, c})
		if c.IsWrite() && c.Verb != history.UpdateStatus { // an update of a status may change nothing
			begins = append(begins, timedRevision{c.Began, revision, c})
		}
	}
	byTime := func(a, b timedRevision) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.revision, b.revision)) }
	slices.SortFunc(ends, byTime)
	slices.SortFunc(begins, byTime)
	var newest timedRevision
	for _, b := range begins {
		for len(ends) > 0 && ends[0].at.Before(b.at) {
			if ends[0].revision > newest.revision {
				newest = ends[0]
			}
			ends = ends[1:]
		}
		if newest.call != nil && b.revision <= newest.revision {
			x.add(b.call.Key, "%s by %s has revision %d, though it began after %s had received revision %d (of %s)",
				b.call.Verb, b.call.Client, b.revision, newest.call.Client, newest.revision, newest.call.Key)
		}
	}
}

// deletionRevisions returns the revisions of deletions, by the UID of the object.
func deletionRevisions(log *history.Log) map[string]uint64 {
	all := map[string]uint64{}
	for s := range log.Steps() {
		if s.New == nil && s.Old != nil {
			all[s.Old.GetMetadata().GetUid()] = s.Revision
		}
	}
	return all
}

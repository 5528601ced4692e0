package check

import (
	"time"

	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// Writes checks that the log has every acknowledged write once and at the acknowledged revision, no
// refused write, each unknown write at most once, and no change that no client requested.
type Writes struct{}

// Name implements Checker.
func (Writes) Name() string { return "writes" }

// Check implements Checker.
func (c Writes) Check(h *history.History) []Finding {
	x := &writes{
		findings: findings{check: c.Name()}, marked: map[string][]uint64{}, deleted: map[string]uint64{},
		versions: map[history.Version]bool{}, read: h.Log.Read,
	}
	for _, o := range h.Log.Objects {
		x.versions[history.VersionOf(o)] = true
	}
	for s := range h.Log.Steps() {
		x.index(s)
	}
	explained := map[uint64]bool{}
	for i := range h.Calls {
		x.check(&h.Calls[i], explained)
	}
	x.unexplained(h, explained)
	return x.all()
}

type writes struct {
	findings
	// marked are the revisions at which a mark appeared on an object, and deleted at which a UID
	// went.
	marked  map[string][]uint64
	deleted map[string]uint64
	// versions are those that the log has.
	versions map[history.Version]bool
	read     time.Time // of the log
}

// index indexes a step by its mark and its UID. A version with the same mark as the version before
// is another client's write.
func (x *writes) index(s history.Step) {
	before, after := history.VersionOf(s.Old), history.VersionOf(s.New)
	x.versions[after] = true
	switch {
	case s.New == nil:
		x.deleted[before.UID] = s.Revision
	case after.Mark != "" && (after.Mark != before.Mark || after.UID != before.UID):
		x.marked[after.Mark] = append(x.marked[after.Mark], s.Revision)
	}
}

// check compares a write with the log, and adds the revisions that it explains to explained.
func (x *writes) check(c *history.Call, explained map[uint64]bool) {
	switch c.Verb {
	case history.Get:
		return
	case history.UpdateStatus:
		if c.Outcome == history.OK && c.Ended.Before(x.read) && !x.versions[c.Found] {
			x.add(c.Key, "%s was acknowledged with version %d, which is not in the log", c.Verb, c.Found.Revision)
		}
		return
	}
	var at []uint64
	switch {
	case c.Verb != history.Delete:
		at = x.marked[c.Mark]
	case c.Outcome == history.OK && x.deleted[c.Found.UID] > 0:
		at = []uint64{x.deleted[c.Found.UID]}
	}
	for _, revision := range at {
		explained[revision] = true
	}
	if len(at) > 1 {
		x.add(c.Key, "%s %s took effect at revisions %v, want once", c.Verb, c.Mark, at)
	}
	switch c.Outcome {
	case history.OK:
		x.acknowledged(c, at)
	case history.Refused:
		if len(at) > 0 {
			x.add(c.Key, "%s %s was refused (%s) and took effect at revision %d", c.Verb, c.Mark, c.Error, at[0])
		}
	}
}

func (x *writes) acknowledged(c *history.Call, at []uint64) {
	if !c.Ended.Before(x.read) {
		return // the log was read before
	}
	switch {
	case len(at) == 0:
		x.add(c.Key, "%s %s was acknowledged at revision %d and is not in the log", c.Verb, c.Mark, c.Found.Revision)
	case c.Verb == history.Delete && at[0] <= c.Found.Revision:
		x.add(c.Key, "the deletion of version %d is at revision %d", c.Found.Revision, at[0])
	case c.Verb != history.Delete && at[0] != c.Found.Revision:
		x.add(c.Key, "%s %s was acknowledged at revision %d, the log has it at %d", c.Verb, c.Mark, c.Found.Revision, at[0])
	}
}

// unexplained reports marks that no client set, and deletions of marked objects that no client can
// have asked for.
func (x *writes) unexplained(h *history.History, explained map[uint64]bool) {
	unknown := map[object.Key][]*history.Call{}
	acknowledged := map[string]bool{}
	for i := range h.Calls {
		c := &h.Calls[i]
		switch {
		case c.Verb != history.Delete:
		case c.Outcome == history.Unknown:
			unknown[c.Key] = append(unknown[c.Key], c)
		case c.Outcome == history.OK && acknowledged[c.Found.UID]:
			x.add(c.Key, "the deletion of %s was acknowledged twice", c.Found.UID)
		case c.Outcome == history.OK:
			acknowledged[c.Found.UID] = true
		}
	}
	for s := range h.Log.Steps() {
		before, after := history.VersionOf(s.Old), history.VersionOf(s.New)
		switch {
		case explained[s.Revision] || before.Mark == "" && after.Mark == "":
		case s.New != nil && after.Mark != before.Mark:
			x.add(s.Key, "revision %d has the mark %q, which no client wrote", s.Revision, after.Mark)
		case s.New == nil:
			rest, possible := matchDeletion(unknown[s.Key], before)
			if unknown[s.Key] = rest; !possible {
				x.add(s.Key, "revision %d deletes version %d, which no client asked for", s.Revision, before.Revision)
			}
		}
	}
}

// matchDeletion takes the call out of some without an answer that most likely deleted a version:
// one call deletes one object.
func matchDeletion(calls []*history.Call, deleted history.Version) (rest []*history.Call, possible bool) {
	best := -1
	for i, c := range calls {
		if c.IfUID != "" && c.IfUID != deleted.UID || c.IfRevision > 0 && c.IfRevision != deleted.Revision {
			continue
		}
		if best < 0 || c.IfUID != "" {
			best = i
		}
	}
	if best < 0 {
		return calls, false
	}
	return append(calls[:best:best], calls[best+1:]...), true
}

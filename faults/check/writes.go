package check

import (
	"time"

	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// Writes checks that the log has every acknowledged write once and at the acknowledged revision, no
// refused write, and each unknown write at most once. It also checks that the log has no WriteID
// that no client set, and no deletion of an object with a WriteID that no client requested.
type Writes struct{}

// Name implements Checker.
func (Writes) Name() string { return "writes" }

// Check implements Checker.
func (c Writes) Check(h *history.History) []Finding {
	x := &writeChecker{
		findings: findings{check: c.Name()}, writtenAt: map[string][]uint64{}, deletedAt: map[string]uint64{},
		versions: map[history.Version]bool{}, logReadAt: h.Log.ReadAt,
	}
	for _, o := range h.Log.Objects {
		x.versions[history.VersionOf(o)] = true
	}
	for s := range h.Log.Steps() {
		x.index(s)
	}
	explained := map[uint64]bool{}
	for i := range h.Calls {
		x.checkCall(&h.Calls[i], explained)
	}
	x.checkUnexplained(h, explained)
	return x.all()
}

type writeChecker struct {
	findings
	// writtenAt has the revisions at which each WriteID first appeared on an object. deletedAt has
	// the revision at which the object of each UID was deleted.
	writtenAt map[string][]uint64
	deletedAt map[string]uint64
	// versions are all versions in the log.
	versions  map[history.Version]bool
	logReadAt time.Time
}

// index indexes a step by its WriteID and its UID. A version with the same WriteID as the version
// before was written by another client, which did not set a WriteID.
func (x *writeChecker) index(s history.Step) {
	before, after := history.VersionOf(s.Old), history.VersionOf(s.New)
	x.versions[after] = true
	switch {
	case s.New == nil:
		x.deletedAt[before.UID] = s.Revision
	case after.WriteID != "" && (after.WriteID != before.WriteID || after.UID != before.UID):
		x.writtenAt[after.WriteID] = append(x.writtenAt[after.WriteID], s.Revision)
	}
}

// checkCall compares a write with the log, and adds the revisions of its changes to explained.
func (x *writeChecker) checkCall(c *history.Call, explained map[uint64]bool) {
	switch c.Verb {
	case history.Get:
		return
	case history.UpdateStatus:
		if c.Outcome == history.OK && c.Ended.Before(x.logReadAt) && !x.versions[c.Result] {
			x.add(c.Key, "%s was acknowledged with version %d, which is not in the log", c.Verb, c.Result.Revision)
		}
		return
	}
	var revisions []uint64
	switch {
	case c.Verb != history.Delete:
		revisions = x.writtenAt[c.WriteID]
	case c.Outcome == history.OK && x.deletedAt[c.Result.UID] > 0:
		revisions = []uint64{x.deletedAt[c.Result.UID]}
	}
	for _, revision := range revisions {
		explained[revision] = true
	}
	if len(revisions) > 1 {
		x.add(c.Key, "%s %s took effect at revisions %v, want once", c.Verb, c.WriteID, revisions)
	}
	switch c.Outcome {
	case history.OK:
		x.checkAcknowledged(c, revisions)
	case history.Refused:
		if len(revisions) > 0 {
			x.add(c.Key, "%s %s was refused (%s) and took effect at revision %d", c.Verb, c.WriteID, c.Error, revisions[0])
		}
	}
}

func (x *writeChecker) checkAcknowledged(c *history.Call, revisions []uint64) {
	if !c.Ended.Before(x.logReadAt) {
		return // the log may not have it, because it was read before
	}
	switch {
	case len(revisions) == 0:
		x.add(c.Key, "%s %s was acknowledged at revision %d and is not in the log", c.Verb, c.WriteID, c.Result.Revision)
	case c.Verb == history.Delete && revisions[0] <= c.Result.Revision:
		x.add(c.Key, "the deletion of version %d is at revision %d", c.Result.Revision, revisions[0])
	case c.Verb != history.Delete && revisions[0] != c.Result.Revision:
		x.add(c.Key, "%s %s was acknowledged at revision %d, the log has it at %d", c.Verb, c.WriteID, c.Result.Revision, revisions[0])
	}
}

// checkUnexplained reports WriteIDs that no client set, and deletions of objects with a WriteID
// that no client can have requested.
func (x *writeChecker) checkUnexplained(h *history.History, explained map[uint64]bool) {
	unknownDeletions := map[object.Key][]*history.Call{}
	acknowledgedDeletions := map[string]bool{}
	for i := range h.Calls {
		c := &h.Calls[i]
		switch {
		case c.Verb != history.Delete:
		case c.Outcome == history.Unknown:
			unknownDeletions[c.Key] = append(unknownDeletions[c.Key], c)
		case c.Outcome == history.OK && acknowledgedDeletions[c.Result.UID]:
			x.add(c.Key, "the deletion of %s was acknowledged twice", c.Result.UID)
		case c.Outcome == history.OK:
			acknowledgedDeletions[c.Result.UID] = true
		}
	}
	for s := range h.Log.Steps() {
		before, after := history.VersionOf(s.Old), history.VersionOf(s.New)
		switch {
		case explained[s.Revision] || before.WriteID == "" && after.WriteID == "":
		case s.New != nil && after.WriteID != before.WriteID:
			x.add(s.Key, "revision %d has the write ID %q, which no client wrote", s.Revision, after.WriteID)
		case s.New == nil:
			remaining, possible := matchDeletion(unknownDeletions[s.Key], before)
			if unknownDeletions[s.Key] = remaining; !possible {
				x.add(s.Key, "revision %d deletes version %d, which no client requested", s.Revision, before.Revision)
			}
		}
	}
}

// matchDeletion removes the call that most likely deleted a version from calls, which are deletions
// with an unknown outcome. It returns the remaining calls, because one call deletes at most one
// object. possible reports whether there was such a call.
func matchDeletion(calls []*history.Call, deleted history.Version) (remaining []*history.Call, possible bool) {
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

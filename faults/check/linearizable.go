package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc/codes"

	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// Linearizable checks that the calls about each object can be put into an order that explains all
// answers. In this order, no call precedes a call that had ended before it began.
//
// A write with an unknown outcome may take effect at any time after it began, or never. If the log
// was read, it limits this: an unknown write that is not in the log never took effect, and any
// other took effect before a client first knew its revision.
type Linearizable struct {
	// Timeout limits the search for one object. The default is 20 s. A search that is not finished
	// by then is a finding too.
	Timeout time.Duration
}

// Name implements Checker.
func (Linearizable) Name() string { return "linearizable" }

// Check implements Checker.
func (c Linearizable) Check(h *history.History) []Finding {
	x := findings{check: c.Name()}
	ops := operations(h)
	initial := h.Log.Initial()
	for _, key := range slices.SortedFunc(maps.Keys(ops), object.Compare) {
		initialState := register{present: initial[key] != nil, version: history.VersionOf(initial[key])}
		model := registerModel(initialState)
		switch porcupine.CheckOperationsTimeout(model, ops[key], cmp.Or(c.Timeout, 20*time.Second)) {
		case porcupine.Illegal:
			x.add(key, "no order of the calls explains all answers; %s", explainFailure(model, ops[key]))
		case porcupine.Unknown:
			x.add(key, "the search for an order of the %d calls that explains all answers was not finished in time", len(ops[key]))
		}
	}
	return x.all()
}

// endOfTime is later than any operation. It is the end of operations that have not ended.
const endOfTime = int64(1) << 62

// operations returns the porcupine operations on each object.
func operations(h *history.History) map[object.Key][]porcupine.Operation {
	b := &operationBuilder{log: &h.Log, all: map[object.Key][]porcupine.Operation{}, written: map[string]history.Version{}, explained: map[uint64]bool{}}
	for s := range h.Log.Steps() {
		if v := history.VersionOf(s.New); v.WriteID != "" && v.WriteID != history.VersionOf(s.Old).WriteID {
			b.written[v.WriteID] = v
		}
	}
	b.deletedAt = deletionRevisions(&h.Log)
	if len(h.Calls) > 0 {
		b.origin = h.Calls[0].Began
	}
	b.firstKnown = firstKnownTimes(h)
	for _, c := range h.Calls {
		b.addCall(c)
	}
	b.addExternalChanges(h)
	return b.all
}

type operationBuilder struct {
	log        *history.Log
	origin     time.Time
	firstKnown []firstKnown
	// written has the version that each write made, by WriteID. deletedAt has the revisions of
	// deletions, by UID.
	written   map[string]history.Version
	deletedAt map[string]uint64
	// explained are the revisions that calls made.
	explained map[uint64]bool
	all       map[object.Key][]porcupine.Operation
}

func (b *operationBuilder) offset(t time.Time) int64 { return int64(t.Sub(b.origin)) }

func (b *operationBuilder) addOperation(key object.Key, op *operation, began, ended int64) {
	b.all[key] = append(b.all[key], porcupine.Operation{Input: op, Call: began, Return: ended})
}

// addCall adds a call, unless its answer reveals nothing about the object. A call that began after
// the log was read is left out. A call that ended after that time counts as unknown.
func (b *operationBuilder) addCall(c history.Call) {
	read := !b.log.ReadAt.IsZero()
	if read && !c.Began.Before(b.log.ReadAt) {
		return
	}
	if c.Ended.IsZero() || read && !c.Ended.Before(b.log.ReadAt) {
		c.Outcome, c.Result = history.Unknown, history.Version{}
	}
	op := &operation{call: &c}
	b.explained[b.revisionOf(&c)] = true
	switch {
	case c.Outcome == history.OK || c.Outcome == history.Refused && revealsState(&c):
		b.addOperation(c.Key, op, b.offset(c.Began), b.offset(c.Ended))
	case c.Outcome == history.Refused || c.Verb == history.Get:
	case !read:
		op.resultingVersion = history.Version{WriteID: c.WriteID}
		b.addOperation(c.Key, op, b.offset(c.Began), endOfTime)
	case c.Verb == history.Delete: // addExternalChanges adds those that are in the log
	case b.written[c.WriteID].Revision > 0:
		op.resultingVersion = b.written[c.WriteID]
		b.addOperation(c.Key, op, b.offset(c.Began), max(b.offset(c.Began), b.committedBy(op.resultingVersion.Revision)))
	}
}

// revisionOf returns the revision of a call's change, or 0 if the log has none or it is not known
// which one.
func (b *operationBuilder) revisionOf(c *history.Call) uint64 {
	switch {
	case c.Verb == history.Delete && c.Outcome == history.OK:
		return b.deletedAt[c.Result.UID]
	case c.Verb == history.UpdateStatus:
		return c.Result.Revision // 0 without an answer
	}
	return b.written[c.WriteID].Revision
}

// revealsState reports whether a refusal depends on the object's state. A conflict does only for a
// write with a condition, because the registry also returns ABORTED after many lost races.
func revealsState(c *history.Call) bool {
	switch c.Code {
	case codes.NotFound, codes.AlreadyExists:
		return true
	case codes.Aborted:
		return c.IfUID != "" || c.IfRevision > 0
	}
	return false
}

// addExternalChanges adds the changes that no call explains: changes by other clients, and
// deletions without an answer.
func (b *operationBuilder) addExternalChanges(h *history.History) {
	for s := range h.Log.Steps() {
		if b.all[s.Key] == nil || b.explained[s.Revision] {
			continue
		}
		op := &operation{before: history.VersionOf(s.Old), after: history.VersionOf(s.New)}
		began := int64(0)
		if s.New == nil {
			began = b.firstUnknownDeletion(h, s.Key)
		}
		b.addOperation(s.Key, op, began, max(began, b.committedBy(s.Revision)))
	}
}

// firstUnknownDeletion returns the time at which the first deletion of an object with an unknown
// outcome began, or 0 if there is none.
func (b *operationBuilder) firstUnknownDeletion(h *history.History, key object.Key) int64 {
	for _, c := range h.Calls {
		if c.Key == key && c.Verb == history.Delete && c.Outcome == history.Unknown {
			return b.offset(c.Began)
		}
	}
	return 0
}

// firstKnown is the earliest time at which any client knew of a revision.
type firstKnown struct {
	revision uint64
	at       time.Time
}

// firstKnownTimes returns the earliest times at which any client knew of revisions, ordered by
// revision and time. A client that knows a revision knows of all earlier ones, so revisions that
// became known later than a higher one are left out.
func firstKnownTimes(h *history.History) []firstKnown {
	var all []firstKnown
	for _, c := range h.Calls {
		if c.Outcome == history.OK {
			all = append(all, firstKnown{c.Result.Revision, c.Ended})
		}
	}
	for _, r := range h.Watches {
		for _, batch := range r.Batches {
			all = append(all, firstKnown{batch.Revision, batch.At})
		}
	}
	slices.SortFunc(all, func(a, b firstKnown) int { return a.at.Compare(b.at) })
	var first []firstKnown
	for _, k := range all {
		if len(first) == 0 || k.revision > first[len(first)-1].revision {
			first = append(first, k)
		}
	}
	return first
}

// committedBy returns a time at which a revision was certainly committed.
func (b *operationBuilder) committedBy(revision uint64) int64 {
	i, _ := slices.BinarySearchFunc(b.firstKnown, revision, func(n firstKnown, r uint64) int { return cmp.Compare(n.revision, r) })
	if i == len(b.firstKnown) {
		return endOfTime
	}
	return b.offset(b.firstKnown[i].at)
}

// explainFailure returns the longest order that explains answers, and the operations that do not
// fit.
func explainFailure(model porcupine.Model, all []porcupine.Operation) string {
	_, info := porcupine.CheckOperationsVerbose(model, all, time.Minute)
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations() {
		for _, order := range partial {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	placed := map[any]bool{}
	for _, op := range longest {
		placed[op.Input] = true
	}
	unplaced := slices.DeleteFunc(slices.Clone(all), func(op porcupine.Operation) bool { return placed[op.Input] })
	slices.SortFunc(unplaced, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	const shown = 8
	var text strings.Builder
	fmt.Fprintf(&text, "the longest order of some of the %d operations ends with:", len(all))
	for _, op := range longest[max(0, len(longest)-shown):] {
		fmt.Fprintf(&text, "\n\t%s", formatOperation(op))
	}
	text.WriteString("\nthese do not fit:")
	for _, op := range unplaced[:min(shown, len(unplaced))] {
		fmt.Fprintf(&text, "\n\t%s", formatOperation(op))
	}
	return text.String()
}

func formatOperation(op porcupine.Operation) string {
	until := "?"
	if op.Return != endOfTime {
		until = time.Duration(op.Return).Round(time.Microsecond).String()
	}
	return fmt.Sprintf("%s to %s: %s", time.Duration(op.Call).Round(time.Microsecond), until, op.Input)
}

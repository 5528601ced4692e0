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
// answers. In this order no call precedes a call that had ended before it began.
//
// A write with an unknown outcome may take effect at any time after it began, or never. If the log
// was read, it narrows that down: an unknown write that the log lacks never took effect, and any
// other took effect before a client first knew of its revision.
type Linearizable struct {
	// Patience bounds the search for one object; 0: 20 s. A search that does not end is a finding
	// too.
	Patience time.Duration
}

// Name implements Checker.
func (Linearizable) Name() string { return "linearizable" }

// Check implements Checker.
func (c Linearizable) Check(h *history.History) []Finding {
	x := findings{check: c.Name()}
	all := operations(h)
	initial := h.Log.Initial()
	for _, key := range slices.SortedFunc(maps.Keys(all), object.Compare) {
		before := register{present: initial[key] != nil, version: history.VersionOf(initial[key])}
		model := registerModel(before)
		switch porcupine.CheckOperationsTimeout(model, all[key], cmp.Or(c.Patience, 20*time.Second)) {
		case porcupine.Illegal:
			x.add(key, "no order of the calls explains all answers; %s", culprit(model, all[key]))
		case porcupine.Unknown:
			x.add(key, "it was not decided in time whether an order of the %d calls explains all answers", len(all[key]))
		}
	}
	return x.all()
}

// never is a time after all others.
const never = int64(1) << 62

// operations returns the operations on each object, for porcupine.
func operations(h *history.History) map[object.Key][]porcupine.Operation {
	b := &builder{log: &h.Log, all: map[object.Key][]porcupine.Operation{}, marks: map[string]history.Version{}, accountedFor: map[uint64]bool{}}
	for s := range h.Log.Steps() {
		if v := history.VersionOf(s.New); v.Mark != "" && v.Mark != history.VersionOf(s.Old).Mark {
			b.marks[v.Mark] = v
		}
	}
	b.gone = deletions(&h.Log)
	if len(h.Calls) > 0 {
		b.origin = h.Calls[0].Began
	}
	b.firstKnown = firstKnownOf(h)
	for _, c := range h.Calls {
		b.add(c)
	}
	b.addOthers(h)
	return b.all
}

type builder struct {
	log        *history.Log
	origin     time.Time
	firstKnown []firstKnown
	// marks are the versions that writes made, by mark, and gone the revisions of deletions, by
	// UID.
	marks map[string]history.Version
	gone  map[string]uint64
	// accountedFor are the revisions that calls account for.
	accountedFor map[uint64]bool
	all          map[object.Key][]porcupine.Operation
}

func (b *builder) at(t time.Time) int64 { return int64(t.Sub(b.origin)) }

func (b *builder) put(key object.Key, op *step, began, ended int64) {
	b.all[key] = append(b.all[key], porcupine.Operation{Input: op, Call: began, Return: ended})
}

// add adds a call, unless nothing follows from it. A call that began after the log was read is left
// out. A call that ended after that time counts as unknown.
func (b *builder) add(c history.Call) {
	read := !b.log.Read.IsZero()
	if read && !c.Began.Before(b.log.Read) {
		return
	}
	if c.Ended.IsZero() || read && !c.Ended.Before(b.log.Read) {
		c.Outcome, c.Found = history.Unknown, history.Version{}
	}
	op := &step{call: &c}
	b.accountedFor[b.revisionOf(&c)] = true
	switch {
	case c.Outcome == history.OK || c.Outcome == history.Refused && revealsState(&c):
		b.put(c.Key, op, b.at(c.Began), b.at(c.Ended))
	case c.Outcome == history.Refused || c.Verb == history.Get:
	case !read:
		op.resultingVersion = history.Version{Mark: c.Mark}
		b.put(c.Key, op, b.at(c.Began), never)
	case c.Verb == history.Delete: // addOthers adds those that happened
	case b.marks[c.Mark].Revision > 0:
		op.resultingVersion = b.marks[c.Mark]
		b.put(c.Key, op, b.at(c.Began), max(b.at(c.Began), b.knownBy(op.resultingVersion.Revision)))
	}
}

// revisionOf returns the revision of a call's change; 0: the log has none, or which one cannot be
// told.
func (b *builder) revisionOf(c *history.Call) uint64 {
	switch {
	case c.Verb == history.Delete && c.Outcome == history.OK:
		return b.gone[c.Found.UID]
	case c.Verb == history.UpdateStatus:
		return c.Found.Revision // 0, if the answer did not come
	}
	return b.marks[c.Mark].Revision
}

// revealsState reports whether a refusal says something of the object's state. A conflict does so
// only for a write with a condition: others give up after many lost races.
func revealsState(c *history.Call) bool {
	switch c.Code {
	case codes.NotFound, codes.AlreadyExists:
		return true
	case codes.Aborted:
		return c.IfUID != "" || c.IfRevision > 0
	}
	return false
}

// addOthers adds the changes that no call accounts for: changes by other clients, and deletions
// without an answer.
func (b *builder) addOthers(h *history.History) {
	for s := range h.Log.Steps() {
		if b.all[s.Key] == nil || b.accountedFor[s.Revision] {
			continue
		}
		op := &step{from: history.VersionOf(s.Old), to: history.VersionOf(s.New)}
		began := int64(0)
		if s.New == nil {
			began = b.firstDeletion(h, s.Key)
		}
		b.put(s.Key, op, began, max(began, b.knownBy(s.Revision)))
	}
}

// firstDeletion returns when the first deletion of an object began that has no answer.
func (b *builder) firstDeletion(h *history.History, key object.Key) int64 {
	for _, c := range h.Calls {
		if c.Key == key && c.Verb == history.Delete && c.Outcome == history.Unknown {
			return b.at(c.Began)
		}
	}
	return 0
}

// firstKnown is the earliest time at which any client knew of a revision.
type firstKnown struct {
	revision uint64
	at       time.Time
}

// firstKnownOf returns the earliest time at which any client knew of each revision, by growing
// revision and time.
func firstKnownOf(h *history.History) []firstKnown {
	var all []firstKnown
	for _, c := range h.Calls {
		if c.Outcome == history.OK {
			all = append(all, firstKnown{c.Found.Revision, c.Ended})
		}
	}
	for _, r := range h.Readings {
		for _, batch := range r.Batches {
			all = append(all, firstKnown{batch.Revision, batch.At})
		}
	}
	slices.SortFunc(all, func(a, b firstKnown) int { return a.at.Compare(b.at) })
	var first []firstKnown
	for _, n := range all {
		if len(first) == 0 || n.revision > first[len(first)-1].revision {
			first = append(first, n)
		}
	}
	return first
}

// knownBy returns the time by which a revision was committed.
func (b *builder) knownBy(revision uint64) int64 {
	i, _ := slices.BinarySearchFunc(b.firstKnown, revision, func(n firstKnown, r uint64) int { return cmp.Compare(n.revision, r) })
	if i == len(b.firstKnown) {
		return never
	}
	return b.at(b.firstKnown[i].at)
}

// culprit describes the longest order that explains answers, and the operation that does not fit
// behind it.
func culprit(model porcupine.Model, all []porcupine.Operation) string {
	_, info := porcupine.CheckOperationsVerbose(model, all, time.Minute)
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations() {
		for _, one := range partial {
			if len(one) > len(longest) {
				longest = one
			}
		}
	}
	placed := map[any]bool{}
	for _, op := range longest {
		placed[op.Input] = true
	}
	left := slices.DeleteFunc(slices.Clone(all), func(op porcupine.Operation) bool { return placed[op.Input] })
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	const shown = 8
	var text strings.Builder
	fmt.Fprintf(&text, "the last that fit, of %d:", len(all))
	for _, op := range longest[max(0, len(longest)-shown):] {
		fmt.Fprintf(&text, "\n\t%s", line(op))
	}
	text.WriteString("\nnot these:")
	for _, op := range left[:min(shown, len(left))] {
		fmt.Fprintf(&text, "\n\t%s", line(op))
	}
	return text.String()
}

func line(op porcupine.Operation) string {
	until := "?"
	if op.Return != never {
		until = time.Duration(op.Return).Round(time.Microsecond).String()
	}
	return fmt.Sprintf("%s to %s: %s", time.Duration(op.Call).Round(time.Microsecond), until, op.Input)
}

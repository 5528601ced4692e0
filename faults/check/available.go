package check

import (
	"time"

	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// Available checks that the outages of clients are not longer than a limit.
type Available struct {
	// Longest is the maximum length of an outage, by the kinds of history.Availability. Kinds
	// without a limit are not checked.
	Longest map[string]time.Duration
}

// Name implements Checker.
func (Available) Name() string { return "available" }

// Check implements Checker.
func (c Available) Check(h *history.History) []Finding {
	x := findings{check: c.Name()}
	for _, w := range h.Availability() {
		if bound, ok := c.Longest[w.Kind]; ok && w.Longest > bound {
			x.add(object.Key{}, "a client of the kind %q was not served for %s from %s on, want at most %s",
				w.Kind, w.Longest.Round(time.Millisecond), w.LongestFrom.Format(time.TimeOnly), bound)
		}
	}
	return x.all()
}

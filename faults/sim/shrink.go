package sim

import (
	"slices"
	"time"
)

// shrink leaves out events as long as the schedule still fails, and returns the indices of the
// remaining events. It returns when no single event can be left out, or at the deadline.
//
// fails runs the schedule with only the events of keep, and reports whether it fails. It may run
// the schedule several times, because not every run of a failing schedule fails.
func shrink(events int, deadline time.Time, fails func(keep []int) bool) []int {
	kept := make([]int, events)
	for i := range kept {
		kept[i] = i
	}
	for size := (events + 1) / 2; size > 0; {
		smaller := false
		for from := 0; from < len(kept); {
			if time.Now().After(deadline) {
				return kept
			}
			without := slices.Delete(slices.Clone(kept), from, min(from+size, len(kept)))
			if fails(without) {
				kept, smaller = without, true
			} else {
				from += size
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	return kept
}

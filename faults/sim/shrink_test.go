package sim

import (
	"slices"
	"testing"
	"time"
)

func TestShrinkKeepsNeededEvents(t *testing.T) {
	for _, needed := range [][]int{nil, {0}, {99}, {3, 50, 51}, {0, 10, 20, 30, 99}} {
		fails := func(keep []int) bool {
			return !slices.ContainsFunc(needed, func(i int) bool { return !slices.Contains(keep, i) })
		}
		if got := shrink(100, time.Now().Add(time.Hour), fails); !slices.Equal(got, needed) {
			t.Errorf("shrink returned %d, want %d", got, needed)
		}
	}
}

func TestShrinkStopsAtDeadline(t *testing.T) {
	fails := func([]int) bool { t.Error("shrink ran a schedule after the deadline"); return true }
	if got := shrink(3, time.Now(), fails); len(got) != 3 {
		t.Errorf("shrink returned %d, want all 3 events", got)
	}
}

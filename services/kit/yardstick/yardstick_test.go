package yardstick

import (
	"math"
	"testing"
)

// TestMissedTargetsAreMarked covers both directions, the bound itself, and NaN, the result of
// dividing zero by zero.
func TestMissedTargetsAreMarked(t *testing.T) {
	for _, c := range []struct {
		value  float64
		target Target
		want   string
	}{
		{0.33, AtLeast(1), "ratio x 0.33 (≥ 1) MISSED"},
		{1, AtLeast(1), "ratio x 1 (≥ 1)"},
		{1.3, AtMost(1.3), "ratio x 1.3 (≤ 1.3)"},
		{1.301, AtMost(1.3), "ratio x 1.301 (≤ 1.3) MISSED"},
		{54, Target{}, "ratio x 54"},
		{100, AtMost(100), "ratio x 100 (≤ 100)"},
		{math.NaN(), AtMost(1), "ratio x NaN (≤ 1) MISSED"},
	} {
		if got := Line("x", c.value, c.target); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

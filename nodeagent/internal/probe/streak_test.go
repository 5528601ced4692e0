package probe

import (
	"errors"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
)

// TestThresholds checks the streak with a row of results. In results, + is a success and - a
// failure. In believed, y marks the results that reach a threshold.
func TestThresholds(t *testing.T) {
	for _, tc := range []struct {
		successes, failures int
		results, believed   string
	}{
		{1, 3, "+--+---+", "y..y..yy"},
		{2, 1, "++-+-++", ".yy.y.y"},
		{3, 2, "++-++-+++--", "........y.y"},
		{1, 1, "+-+-", "yyyy"},
	} {
		var s streak
		for i, r := range tc.results {
			var err error
			if r == '-' {
				err = errors.New("no")
			}
			got := s.add(err, timing{successes: tc.successes, failures: tc.failures})
			if want := tc.believed[i] == 'y'; got != want {
				t.Errorf("thresholds %d/%d, %s: result %d believed %t, want %t", tc.successes, tc.failures, tc.results, i+1, got, want)
			}
		}
	}
}

func TestTimingDefaults(t *testing.T) {
	want := timing{timeout: time.Second, period: 10 * time.Second, successes: 1, failures: 3}
	if got := timingOf(&corev1.Probe{}); got != want {
		t.Errorf("defaults %+v, want %+v", got, want)
	}
}

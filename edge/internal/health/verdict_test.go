package health

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestVerdict compares the verdict with the definition: a backend is usable until the last Unhealthy
// results are failures, and then unusable until the last Healthy results are successes.
func TestVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{Healthy: rapid.IntRange(1, 5).Draw(t, "healthy"), Unhealthy: rapid.IntRange(1, 5).Draw(t, "unhealthy")}
		v, want := verdict{usable: true}, true
		var results []bool
		for range rapid.IntRange(0, 60).Draw(t, "count") {
			results = append(results, rapid.Bool().Draw(t, "success"))
			before := want
			if want && endsWith(results, s.Unhealthy, false) || !want && endsWith(results, s.Healthy, true) {
				want = !want
			}
			changed := v.add(results[len(results)-1], &s)
			if v.usable != want || changed != (before != want) {
				t.Fatalf("after %v: usable %t, changed %t; want %t", results, v.usable, changed, want)
			}
		}
	})
}

// endsWith reports whether the last n results are all equal to result.
func endsWith(results []bool, n int, result bool) bool {
	return len(results) >= n && !slices.Contains(results[len(results)-n:], !result)
}

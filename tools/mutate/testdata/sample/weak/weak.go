package weak

import "log/slog"

// Larger is tested, but not with equal numbers.
func Larger(a, b int) int {
	slog.Default().Info("no mutant")
	if a > b {
		return a
	}
	return b
}

// Keep is not tested to keep anything.
func Keep(list map[string]int, key string) (kept bool) {
	list[key] = 1
	return true
}

// Count ends, unless its condition is negated or its step goes the other way.
func Count(to int) int {
	n := 0
	for n < to {
		n++
	}
	return n
}

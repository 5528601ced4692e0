package rig

import (
	"slices"
	"time"
)

// Median returns the median of values.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Quotient returns the median of the quotients of each round.
func Quotient(ours, theirs []float64) float64 {
	quotients := make([]float64, len(ours))
	for i := range ours {
		quotients[i] = ours[i] / theirs[i]
	}
	return Median(quotients)
}

// Quantile returns a quantile of times in milliseconds.
func Quantile(times []time.Duration, percent int) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return Millis(sorted[len(sorted)*percent/100])
}

// Millis returns a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

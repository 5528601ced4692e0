package kittest

import (
	"os"
	"time"
)

// Repetitions returns how often a test repeats something that happens in the same way each time: as
// often as a mistake needs to be noticed, or nightly times under `make nightly`, which sets
// PORTOLAN_NIGHTLY=1 and has the time to measure a distribution.
func Repetitions(commit, nightly int) int {
	if os.Getenv("PORTOLAN_NIGHTLY") == "1" {
		return nightly
	}
	return commit
}

// Exploring returns how long a test tries random histories: for a short time with each commit, and ten
// times as long under `make nightly`.
func Exploring(commit time.Duration) time.Duration {
	return commit * time.Duration(Repetitions(1, 10))
}

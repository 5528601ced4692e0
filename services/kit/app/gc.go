package app

import (
	"os"
	"runtime/debug"
)

// SetGCPercent sets how much garbage the process lets grow, in percent of the memory in use, unless the environment sets
// GOGC.
func SetGCPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

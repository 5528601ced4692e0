package app

import (
	"os"
	"runtime/debug"
)

// SetGCPercent sets the garbage collector's target percentage, as debug.SetGCPercent does, unless
// the environment sets GOGC.
func SetGCPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

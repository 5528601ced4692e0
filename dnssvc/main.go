package dnssvc

import (
	"os"
	"runtime/debug"

	"portolan.dev/services/daemon"
)

// gcPercent lets the garbage of changes grow to less than Go's default of 100: names take most of the memory, and hardly any of them is garbage.
const gcPercent = 18

// Main is the main function of the daemon in a process of its own.
func Main() int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return daemon.Main("dnssvc", New)
}

package dnssvc

import (
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

// gcPercent lets the garbage of changes grow to less than Go's default of 100: names take most of the memory, and hardly any of them is garbage.
const gcPercent = 18

// Main is the main function of the daemon in a process of its own.
func Main() int {
	app.SetGCPercent(gcPercent)
	return daemon.Main("dnssvc", New)
}

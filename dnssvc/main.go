package dnssvc

import (
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

// gcPercent is the garbage, in percent of the live heap, at which a collection starts. It is below
// Go's default of 100 because names take most of the memory and hardly any of them is garbage.
const gcPercent = 18

// Main runs the daemon in a process of its own.
func Main() int {
	app.SetGCPercent(gcPercent)
	return daemon.Main("dnssvc", New)
}

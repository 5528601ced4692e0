package allocator

import (
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

// gcPercent lets garbage grow to twice the size of the data in memory, as in the registry.
const gcPercent = 200

// Main is the main function of the program.
func Main() int {
	app.SetGCPercent(gcPercent)
	return daemon.Main("allocator", New)
}

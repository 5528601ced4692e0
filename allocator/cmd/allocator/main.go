// Command allocator hands out virtual IPs and ports.
package main

import (
	"os"
	"runtime/debug"

	"portolan.dev/allocator"
	"portolan.dev/services/daemon"
)

// gcPercent lets garbage grow to twice what is in memory, as in the registry.
const gcPercent = 200

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(daemon.Main("allocator", allocator.New))
}

package program

import (
	"context"
	"os"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

// gcPercent lets garbage grow to twice the size of the data in memory, as in the registry.
const gcPercent = 200

// Main is the main function of the program, and of its commands export and import.
func Main() int {
	if len(os.Args) > 1 {
		if command, ok := dumpCommands()[os.Args[1]]; ok {
			return app.Main("allocator", func(ctx context.Context, args []string) error { return command(ctx, args[1:]) })
		}
	}
	app.SetGCPercent(gcPercent)
	return daemon.Main("allocator", New)
}

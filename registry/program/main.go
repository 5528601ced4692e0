package program

import (
	"context"
	"os"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

// gcPercent lets garbage grow to twice the size of the objects in memory; Go's default is once.
// Every write leaves some garbage, and each collection scans all objects.
const gcPercent = 200

// Main is the main function of the program, and of its commands export and import.
func Main() int {
	if len(os.Args) > 1 {
		if command, ok := backupCommands()[os.Args[1]]; ok {
			return app.Main("registry", func(ctx context.Context, args []string) error { return command(ctx, args[1:]) })
		}
	}
	app.SetGCPercent(gcPercent)
	return daemon.Main("registry", New)
}

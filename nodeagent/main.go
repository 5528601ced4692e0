package nodeagent

import (
	"context"
	"os"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

// gcPercent is below Go's default of 100, because endpoints take most of the memory and hardly any
// of them becomes garbage.
const gcPercent = 10

// Main is the main function of the daemon as a process, and of its command cleanup.
func Main() int {
	app.SetGCPercent(gcPercent)
	if len(os.Args) > 1 && os.Args[1] == "cleanup" {
		return app.Main("nodeagent", func(ctx context.Context, args []string) error { return Cleanup(ctx, args[1:]) })
	}
	return daemon.Main("nodeagent", New)
}

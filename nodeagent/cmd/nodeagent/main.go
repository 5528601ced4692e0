// Command nodeagent runs the daemon of a node. `nodeagent cleanup` takes what it
// has left in the kernel out again, once it has been stopped for good.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"portolan.dev/nodeagent"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

// gcPercent lets the garbage of changes grow to less than Go's default of 100:
// endpoints take most of the memory, and hardly any of them is garbage.
const gcPercent = 10

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if len(os.Args) > 1 && os.Args[1] == "cleanup" {
		os.Exit(app.Main("nodeagent", func(ctx context.Context, args []string) error {
			return nodeagent.Cleanup(ctx, args[1:])
		}))
	}
	os.Exit(daemon.Main("nodeagent", nodeagent.New))
}

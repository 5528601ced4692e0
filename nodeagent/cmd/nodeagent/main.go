// Command nodeagent runs the daemon of a node. `nodeagent cleanup` takes what it
// has left in the kernel out again, once it has been stopped for good.
package main

import (
	"context"
	"os"

	"portolan.dev/nodeagent"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "cleanup" {
		os.Exit(app.Main("nodeagent", func(ctx context.Context, args []string) error {
			return nodeagent.Cleanup(ctx, args[1:])
		}))
	}
	os.Exit(daemon.Main("nodeagent", nodeagent.New))
}

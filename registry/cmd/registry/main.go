// Command registry keeps the objects of Portolan.
//
//	registry [flags]          runs the registry
//	registry export [flags]   writes a backup
//	registry import [flags]   fills an empty registry from a backup
package main

import (
	"context"
	"os"
	"runtime/debug"

	"portolan.dev/registry"
	"portolan.dev/registry/internal/backupcmd"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

// gcPercent lets garbage grow to twice the objects in memory, where Go's default is once: every write leaves some, and looking through all objects for it
// is what then costs.
const gcPercent = 200

func main() {
	if len(os.Args) > 1 {
		if command, ok := backupcmd.Commands()[os.Args[1]]; ok {
			os.Exit(app.Main("registry", func(ctx context.Context, args []string) error { return command(ctx, args[1:]) }))
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(daemon.Main("registry", registry.New))
}

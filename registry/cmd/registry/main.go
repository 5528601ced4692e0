// Command registry keeps the objects of Portolan.
//
//	registry [flags]          runs the registry
//	registry export [flags]   writes a backup
//	registry import [flags]   fills an empty registry from a backup
package main

import (
	"context"
	"os"

	"portolan.dev/registry"
	"portolan.dev/registry/internal/backupcmd"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

func main() {
	if len(os.Args) > 1 {
		if command, ok := backupcmd.Commands()[os.Args[1]]; ok {
			os.Exit(app.Main("registry", func(ctx context.Context, args []string) error { return command(ctx, args[1:]) }))
		}
	}
	os.Exit(daemon.Main("registry", registry.New))
}

// Command portolan is the command line of Portolan, and a whole installation in one process.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"portolan.dev/portolan/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

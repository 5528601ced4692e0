package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Program runs the command line of the process until it ends or a signal comes, and returns its
// exit code.
func Program() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

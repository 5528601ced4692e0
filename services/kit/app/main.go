package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"portolan.dev/services/kit/config"
)

// Exit codes of every program of Portolan. ExitConfig is EX_CONFIG of sysexits.h. It tells a
// supervisor that a restart will not help.
const (
	ExitOK     = 0
	ExitError  = 1
	ExitUsage  = 2
	ExitConfig = 78
)

// Main runs a program and returns its exit code. SIGINT and SIGTERM cancel the context of run; a
// second signal ends the process.
func Main(name string, run func(ctx context.Context, args []string) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // from now on signals have their default effect
	err := run(ctx, os.Args[1:])
	code := exitCode(err)
	if code != ExitOK {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	return code
}

func exitCode(err error) int {
	switch {
	case err == nil, errors.Is(err, config.ErrDone):
		return ExitOK
	case errors.Is(err, config.ErrUsage):
		return ExitUsage
	case errors.Is(err, config.ErrInvalid):
		return ExitConfig
	}
	return ExitError
}

package program

import (
	"context"
	"log/slog"
	"os"

	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/internal/linux"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
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

// New builds an agent of this process's machine.
func New(ctx context.Context, cfg nodeagent.Config, host app.Host) (*nodeagent.Daemon, error) {
	return nodeagent.NewOn(ctx, linux.Machine{}, cfg, host)
}

// Cleanup removes everything from the kernel that the agent with this configuration has put there,
// and nothing else. The agent must not be running.
func Cleanup(_ context.Context, args []string) error {
	var cfg nodeagent.Config
	if err := config.Load("nodeagent", &cfg, args, os.LookupEnv, os.Stdout); err != nil {
		return err
	}
	return nodeagent.Cleanup(linux.Machine{}, cfg, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

package registrar

import (
	"context"
	"fmt"
	"io"
	"os"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// Main runs the daemon in a process of its own. With -once, it applies the folder instead. It returns the
// exit code.
func Main() int {
	var cfg Config
	// daemon.Main loads the configuration again. It reports errors and prints the help.
	if err := config.Load("registrar", &cfg, os.Args[1:], os.LookupEnv, io.Discard); err == nil && cfg.Once {
		return app.Main("registrar", func(ctx context.Context, _ []string) error { return once(ctx, &cfg, os.Stdout) })
	}
	return daemon.Main("registrar", New)
}

// once applies the folder and prints the numbers of objects.
func once(ctx context.Context, cfg *Config, out io.Writer) error {
	log, _ := obs.NewLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
	f, err := openFolder(cfg, rpc.TCP(), log, obs.NewMetrics(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = f.close() }()
	err = f.Once(ctx)
	s := f.Status()
	fmt.Fprintf(out, "%s: %d objects in %d files: %d created, %d configured, %d unchanged, %d pruned\n",
		s.Path, s.Objects, s.Files, s.Created, s.Configured, s.Unchanged, s.Pruned)
	return err
}

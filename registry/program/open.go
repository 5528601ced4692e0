package program

import (
	"context"
	"log/slog"

	"portolan.dev/registry"
	"portolan.dev/registry/internal/postgres"
	"portolan.dev/registry/store"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

// New is [registry.New] with every kind of store.
func New(ctx context.Context, cfg registry.Config, host app.Host) (*registry.Daemon, error) {
	return registry.NewOn(ctx, cfg, host, func(ctx context.Context, cfg registry.Config, commits store.CommitterOptions) (store.Store, error) {
		return openStore(ctx, cfg, commits, host.Log)
	})
}

// OpenStore opens the store that a configuration names.
func OpenStore(ctx context.Context, cfg registry.Config, log *slog.Logger) (store.Store, error) {
	return openStore(ctx, cfg, store.CommitterOptions{}, log)
}

func openStore(ctx context.Context, cfg registry.Config, commits store.CommitterOptions, log *slog.Logger) (store.Store, error) {
	kind, dsn, err := cfg.StoreLocation()
	if err != nil {
		return nil, err
	}
	if kind == daemon.SQLite {
		return registry.OpenEmbedded(ctx, cfg, commits)
	}
	s, err := postgres.Open(ctx, postgres.Config{DSN: dsn, Commits: commits, Log: log})
	if err != nil {
		return nil, err // a nil *Store in the interface would not compare equal to nil
	}
	return s, nil
}

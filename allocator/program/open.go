package program

import (
	"context"
	"log/slog"

	"portolan.dev/allocator"
	"portolan.dev/allocator/internal/postgres"
	"portolan.dev/allocator/store"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
)

// New is [allocator.New] with every kind of store.
func New(ctx context.Context, cfg allocator.Config, host app.Host) (*allocator.Daemon, error) {
	return allocator.NewOn(ctx, cfg, host, func(ctx context.Context, cfg allocator.Config) (store.Store, error) {
		return openStore(ctx, cfg, host.Log)
	})
}

// openStore opens the store that a configuration names.
func openStore(ctx context.Context, cfg allocator.Config, log *slog.Logger) (store.Store, error) {
	kind, dsn, err := cfg.StoreLocation()
	if err != nil {
		return nil, err
	}
	if kind == daemon.SQLite {
		return allocator.OpenEmbedded(ctx, cfg)
	}
	s, err := postgres.Open(ctx, postgres.Config{DSN: dsn, Log: log})
	if err != nil {
		return nil, err // a nil *Store in the interface would not compare equal to nil
	}
	return s, nil
}

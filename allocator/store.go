package allocator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/sqldb"

	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/store"
)

// OpenFunc opens the store that a configuration names.
type OpenFunc func(ctx context.Context, cfg Config) (store.Store, error)

// waitForStore opens the store as [daemon.WaitForStore] does.
func waitForStore(ctx context.Context, cfg Config, host app.Host, open OpenFunc) (store.Store, error) {
	reasons := daemon.StoreErrors{Unavailable: store.ErrUnavailable, Unusable: store.ErrUnusable}
	return daemon.WaitForStore(ctx, host, reasons, func(ctx context.Context) (store.Store, error) {
		s, err := open(ctx, cfg)
		if err != nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnusable) {
			err = fmt.Errorf("open store: %w", err)
		}
		return s, err
	})
}

// OpenEmbedded is an [OpenFunc] for the embedded store. Package program opens Postgres too. The error is [sqldb.ErrInUse] if an allocator runs on the store.
func OpenEmbedded(ctx context.Context, cfg Config) (store.Store, error) {
	kind, where, err := cfg.StoreLocation()
	if err != nil {
		return nil, err
	}
	if kind != daemon.SQLite {
		return nil, fmt.Errorf("%w: this program has only the store sqlite", store.ErrUnusable)
	}
	s, err := sqlite.Open(ctx, filepath.Join(where, "allocator.db"))
	if errors.Is(err, sqldb.ErrInUse) {
		return nil, fmt.Errorf("an allocator runs on %s: %w", where, err)
	}
	if err != nil {
		return nil, err // a nil *Store in the interface would not compare equal to nil
	}
	return s, nil
}

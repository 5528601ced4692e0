package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/obs"
)

const (
	// storeCheck is the name of the health check of the store until the store is open. After that
	// the view's check reports outages.
	storeCheck = "store"
	// storeRetry is the time between two attempts to open the store.
	storeRetry = time.Second
)

// OpenFunc opens a store that commits with the given options.
type OpenFunc func(ctx context.Context, commits store.CommitterOptions) (store.Store, error)

// waitForStore opens the store and makes it usable. It waits while the database is unavailable,
// because a database may start later than the registry. A failure that waiting cannot cure
// ([store.ErrUnusable]) is returned as an error of the configuration.
func waitForStore(ctx context.Context, opener OpenFunc, host app.Host) (store.Store, error) {
	commits := store.CommitterOptions{Observe: observeBatches(host.Metrics)}
	open := func() (store.Store, error) {
		s, err := opener(ctx, commits)
		if err != nil {
			return nil, err
		}
		if err := ensureDefaultNamespace(ctx, s, admission.NewUID()); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
	outage := obs.Outage{Log: host.Log, Down: "waiting for the store", Up: "the store is there"}
	for {
		s, err := open()
		switch {
		case err == nil:
			host.Health.Set(storeCheck, nil)
			outage.Over()
			return s, nil
		case errors.Is(err, store.ErrUnusable):
			return nil, fmt.Errorf("%w: store: %w", config.ErrInvalid, err)
		case !errors.Is(err, store.ErrUnavailable):
			return nil, err
		}
		host.Health.Set(storeCheck, err)
		outage.Failed(err)
		if !app.Pause(ctx, storeRetry) {
			return nil, ctx.Err()
		}
	}
}

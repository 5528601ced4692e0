package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/obs"
)

// Kinds of store, as DiscoveryService returns them.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// StoreLocation returns the kind of a store and its location, a folder or a DSN, from the text of a
// setting such as sqlite:FOLDER or postgres://USER@HOST/DATABASE.
func StoreLocation(store string) (kind, where string, err error) {
	if dir, ok := strings.CutPrefix(store, "sqlite:"); ok && dir != "" {
		return SQLite, dir, nil
	}
	if strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://") || strings.Contains(store, "host=") {
		return Postgres, store, nil
	}
	return "", "", errors.New("store: must be sqlite:FOLDER, postgres://… or host=… dbname=…")
}

// ReadStoreFile sets the setting of a store to the content of a file, and the file's name to "". Without
// a file it does nothing.
func ReadStoreFile(store, file *string) error {
	if *file == "" {
		return nil
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		return fmt.Errorf("store-file: %w", err)
	}
	*store, *file = strings.TrimSpace(string(text)), ""
	_, _, err = StoreLocation(*store)
	return err
}

const (
	// storeCheck is the name of the health check of the store until the store is open.
	storeCheck = "store"
	// storeRetry is the time between two attempts to open the store.
	storeRetry = time.Second
)

// StoreErrors are the errors by which a module's stores say why they cannot be opened.
type StoreErrors struct {
	Unavailable error // the database may be available later
	Unusable    error // waiting does not help
}

// WaitForStore opens a store. It waits while the database is unavailable, because a database may start
// later than the daemon. A failure that waiting cannot cure is returned as an error of the
// configuration. Other errors of open are returned as they are.
func WaitForStore[S any](ctx context.Context, host app.Host, reasons StoreErrors, open func(context.Context) (S, error)) (S, error) {
	var none S
	outage := obs.Outage{Log: host.Log, Down: "waiting for the store", Up: "the store is there"}
	for {
		s, err := open(ctx)
		switch {
		case err == nil:
			host.Health.Set(storeCheck, nil)
			outage.Over()
			return s, nil
		case errors.Is(err, reasons.Unusable):
			return none, fmt.Errorf("%w: store: %w", config.ErrInvalid, err)
		case !errors.Is(err, reasons.Unavailable):
			return none, err
		}
		host.Health.Set(storeCheck, err)
		outage.Failed(err)
		if !app.Pause(ctx, storeRetry) {
			return none, ctx.Err()
		}
	}
}

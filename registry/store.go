package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/sqlite"
	"portolan.dev/registry/store"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

// OpenFunc opens the store that a configuration names. The store commits with the given options.
type OpenFunc func(ctx context.Context, cfg Config, commits store.CommitterOptions) (store.Store, error)

// waitForStore opens the store and makes it usable. It waits while the database is unavailable,
// because a database may start later than the registry. A failure that waiting cannot cure
// ([store.ErrUnusable]) is returned as an error of the configuration.
func waitForStore(ctx context.Context, cfg Config, host app.Host, open OpenFunc, usage store.UsageFunc) (store.Store, error) {
	commits := store.CommitterOptions{Observe: observeBatches(host.Metrics), Usage: usage}
	reasons := daemon.StoreErrors{Unavailable: store.ErrUnavailable, Unusable: store.ErrUnusable}
	return daemon.WaitForStore(ctx, host, reasons, func(ctx context.Context) (store.Store, error) {
		s, err := open(ctx, cfg, commits)
		if err != nil {
			return nil, err
		}
		if err := ensureDefaultNamespace(ctx, s, admission.NewUID()); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	})
}

// OpenEmbedded is an [OpenFunc] for the embedded store. Package program opens Postgres too.
func OpenEmbedded(ctx context.Context, cfg Config, commits store.CommitterOptions) (store.Store, error) {
	kind, where, err := cfg.StoreLocation()
	if err != nil {
		return nil, err
	}
	if kind != daemon.SQLite {
		return nil, fmt.Errorf("%w: this program has only the store sqlite", store.ErrUnusable)
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: where, Commits: commits})
	if err != nil {
		return nil, err // a nil *Store in the interface would not compare equal to nil
	}
	return s, nil
}

// ensureDefaultNamespace creates the namespace default if it does not exist, because nothing can be
// created without a namespace.
func ensureDefaultNamespace(ctx context.Context, s store.Store, uid string) error {
	namespace := &corev1.Namespace{Metadata: &corev1.ObjectMeta{
		Name: object.DefaultNamespace, Uid: uid, Generation: 1, CreationTimestamp: timestamppb.New(time.Now().Truncate(time.Millisecond)),
	}}
	rules.Of(namespace).Default(namespace)
	data, err := store.Encode(namespace)
	if err != nil {
		return err
	}
	_, err = s.Submit(ctx, store.Op{Action: store.Create, Key: object.KeyOf(namespace), UID: uid, Data: data})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("create namespace %s: %w", object.DefaultNamespace, err)
	}
	return nil
}

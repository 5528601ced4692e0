package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/postgres"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/sqlite"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// OpenStore opens the store that a configuration names. metrics may be nil.
func OpenStore(ctx context.Context, cfg Config, log *slog.Logger, metrics prometheus.Registerer) (store.Store, error) {
	kind, where, err := cfg.store()
	if err != nil {
		return nil, err
	}
	return openStore(ctx, kind, where, store.CommitterOptions{Observe: observeBatches(metrics)}, log)
}

func openStore(ctx context.Context, kind, where string, commits store.CommitterOptions, log *slog.Logger) (store.Store, error) {
	if kind == storeSQLite {
		return orNil(sqlite.Open(ctx, sqlite.Config{Dir: where, Commits: commits}))
	}
	return orNil(postgres.Open(ctx, postgres.Config{DSN: where, Commits: commits, Log: log}))
}

// orNil returns a nil interface if the store could not be opened. A nil pointer in the interface
// would not compare equal to nil.
func orNil[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// observeBatches returns a function that records the size and the duration of each group commit.
func observeBatches(metrics prometheus.Registerer) func(int, time.Duration) {
	if metrics == nil {
		return nil
	}
	size := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "portolan_registry_commit_writes", Help: "Writes in one commit.", Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256},
	})
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "portolan_registry_commit_duration_seconds", Help: "Time of one commit.",
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10},
	})
	metrics.MustRegister(size, duration)
	return func(writes int, took time.Duration) {
		size.Observe(float64(writes))
		duration.Observe(took.Seconds())
	}
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

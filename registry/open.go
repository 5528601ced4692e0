package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/sqlite"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// OpenEmbedded opens the embedded store that a configuration names. Package program opens Postgres
// too.
func OpenEmbedded(ctx context.Context, cfg Config, commits store.CommitterOptions) (store.Store, error) {
	kind, where, err := cfg.StoreLocation()
	if err != nil {
		return nil, err
	}
	if kind != SQLite {
		return nil, fmt.Errorf("%w: this program has only the store sqlite", store.ErrUnusable)
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: where, Commits: commits})
	if err != nil {
		return nil, err // a nil *Store in the interface would not compare equal to nil
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

package clients

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"portolan.dev/faults/history"
	"portolan.dev/services/changes"
	"portolan.dev/services/kinds"
)

// follower follows all kinds through the change stream, as daemons do, and records the changes.
type follower struct {
	name     string
	registry grpc.ClientConnInterface
	nats     *nats.Conn
	recorder *history.Recorder

	metrics   *prometheus.Registry
	snapshots float64 // number of snapshots so far
	follower  *changes.Follower
}

func (f *follower) run(ctx context.Context) error {
	f.recorder.BeginWatch(f.name, nil)
	f.metrics = prometheus.NewRegistry()
	var err error
	f.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: f.registry, NATS: f.nats, Log: slog.New(slog.DiscardHandler), Metrics: f.metrics, Apply: f.apply,
	})
	if err != nil {
		return err
	}
	return f.follower.Run(ctx)
}

// apply records a batch. After a snapshot it records all objects, because the batch is then the
// difference of two states and not a part of the log.
func (f *follower) apply(_ context.Context, batch []changes.Change, revision uint64) error {
	snapshots, err := f.countSnapshots()
	if err != nil {
		return err
	}
	b := history.Batch{At: time.Now(), Revision: revision, Snapshot: snapshots > f.snapshots}
	f.snapshots = snapshots
	if b.Snapshot {
		for _, kind := range kinds.All {
			for _, o := range f.follower.View().List(kind.Name) {
				b.Events = append(b.Events, history.WatchEvent{Revision: o.GetMetadata().GetResourceVersion(), Object: o})
			}
		}
	} else {
		for _, c := range batch {
			s := history.WatchEvent{Revision: c.Revision, Object: c.New}
			if c.New == nil {
				s.Deleted, s.Object = true, c.Old
			}
			b.Events = append(b.Events, s)
		}
	}
	f.recorder.AddBatch(f.name, b)
	return nil
}

// countSnapshots returns the number of snapshots that the follower has received.
func (f *follower) countSnapshots() (float64, error) {
	families, err := f.metrics.Gather()
	if err != nil {
		return 0, err
	}
	const name = "portolan_changes_snapshots_total"
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		sum := 0.0
		for _, series := range family.GetMetric() { // one per reason
			sum += series.GetCounter().GetValue()
		}
		return sum, nil
	}
	return 0, fmt.Errorf("the follower has no metric %s", name)
}

package controller

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
	"portolan.dev/services/queue"
	"portolan.dev/services/spec"

	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/packing"
)

// Config is the configuration of a controller.
type Config struct {
	Registry grpc.ClientConnInterface
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Index    *index.Index
	// Guard catches panics of the sync of a service.
	Guard *guard.Guard
	// Shards is the number of shards into which the services are divided, at least 1.
	Shards int
	// MaxPerSlice is the largest number of endpoints in a slice.
	MaxPerSlice int
	// Workers is the number of services of a shard that are synced concurrently. The writes of these
	// share calls.
	Workers int
	// LegacyInterval is the shortest time between two writes of the Endpoints of a service.
	LegacyInterval time.Duration
	Queue          queue.Options
	// SyncTimeout bounds one sync.
	SyncTimeout time.Duration
	// LastingFailure is the time for which the syncs of a service fail before an event and the
	// metrics report it.
	LastingFailure time.Duration
	// Recheck is the interval after which refused endpoints are tried again.
	Recheck time.Duration
}

// Controller syncs the services of the shards that this replica holds.
type Controller struct {
	index  *index.Index
	shards []*shard
}

// New returns a controller that holds no shard.
func New(cfg Config) *Controller {
	c := &Controller{index: cfg.Index}
	metrics := newMetrics(cfg.Metrics, cfg.Queue, c.Pending, func() int {
		return c.sum(func(s *shard) int { return s.failures.lasting(cfg.LastingFailure) })
	})
	for number := range cfg.Shards {
		s := newShard(cfg, number)
		s.metrics = metrics
		c.shards = append(c.shards, s)
	}
	return c
}

func (c *Controller) sum(count func(*shard) int) int {
	n := 0
	for _, s := range c.shards {
		n += count(s)
	}
	return n
}

// of returns the shard of a service.
func (c *Controller) of(key object.Name) *shard {
	return c.shards[spec.ControllerShard(key, len(c.shards))]
}

// Apply applies changes of the registry.
func (c *Controller) Apply(ctx context.Context, batch []changes.Change, revision uint64) error {
	affected := make([]index.Affected, len(c.shards))
	for key, n := range c.index.Apply(batch, revision) {
		number := spec.ControllerShard(key, len(c.shards))
		if affected[number] == nil {
			affected[number] = index.Affected{}
		}
		affected[number][key] = n
	}
	span, serviceDeleted := tracing.SpanFromContext(ctx), deletesService(batch)
	for number, s := range c.shards {
		s.enqueue(span, serviceDeleted, affected[number])
	}
	return nil
}

// deletesService reports whether a batch has the deletion of a service.
func deletesService(batch []changes.Change) bool {
	return slices.ContainsFunc(batch, func(change changes.Change) bool { return change.Kind == "Service" && change.New == nil })
}

// Lead syncs every service of a shard, and then each one that changes, until ctx is done. The context
// fences the writes.
func (c *Controller) Lead(ctx context.Context, shard int) { c.shards[shard].lead(ctx) }

// Resync makes every service of the shards that are held due, and returns their number.
func (c *Controller) Resync() int { return c.sum((*shard).resync) }

// Pending returns the number of services that are due or being synced.
func (c *Controller) Pending() int {
	return c.sum(func(s *shard) int { return s.queue.Len() })
}

// Holds reports whether this replica syncs a service.
func (c *Controller) Holds(key object.Name) bool { return c.of(key).isHeld() }

// Failure returns the reason why the last sync of a service failed, and whether it failed.
func (c *Controller) Failure(key object.Name) (Failure, bool) { return c.of(key).failures.get(key) }

// Refused returns the endpoints of a service that are left out because the registry refuses them.
func (c *Controller) Refused(key object.Name) packing.Refused { return c.of(key).refusals.get(key) }

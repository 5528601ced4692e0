package controller

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/packing"
	"portolan.dev/endpointctl/internal/queue"
)

// component is the reporting component of events.
const component = "endpointctl"

// Config is the configuration of a controller.
type Config struct {
	Registry grpc.ClientConnInterface
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Index    *index.Index
	// MaxPerSlice is the largest number of endpoints in a slice.
	MaxPerSlice int
	// Workers is the number of number of services that are synced concurrently.
	Workers int
	Queue   queue.Options
	// SyncTimeout bounds one sync.
	SyncTimeout time.Duration
	// LastingFailure is the time for which the syncs of a service fail before an event and the
	// metrics report it.
	LastingFailure time.Duration
	// Recheck is the interval after which refused endpoints are tried again.
	Recheck time.Duration
}

// Controller syncs services while it leads.
type Controller struct {
	cfg         Config
	queue       *queue.Queue[object.Name]
	slices      registryv1.EndpointSliceServiceClient
	endpoints   registryv1.EndpointsServiceClient
	events      registryv1.EventServiceClient
	metrics     *metrics
	changeTimes *changeTimes
	failures    failures
	refusals    refusals
	leading     atomic.Bool

	mu       sync.Mutex
	deleted  map[object.Name]bool         // guarded by mu: deleted services that are not synced yet
	reported map[eventKey]string          // guarded by mu: the last event of each notice
	traces   map[object.Name]tracing.Span // guarded by mu: the traced change that made a service due
}

// New returns a controller that does not lead.
func New(cfg Config) *Controller {
	c := &Controller{
		cfg: cfg, queue: queue.New[object.Name](cfg.Queue),
		slices:      registryv1.NewEndpointSliceServiceClient(cfg.Registry),
		endpoints:   registryv1.NewEndpointsServiceClient(cfg.Registry),
		events:      registryv1.NewEventServiceClient(cfg.Registry),
		changeTimes: newChangeTimes(),
		failures:    failures{all: map[object.Name]Failure{}},
		refusals:    refusals{all: map[object.Name]packing.Refused{}},
		deleted:     map[object.Name]bool{}, reported: map[eventKey]string{}, traces: map[object.Name]tracing.Span{},
	}
	c.metrics = newMetrics(cfg.Metrics, c.queue.Len, func() int { return c.failures.lasting(cfg.LastingFailure) })
	return c
}

// Apply applies changes of the registry.
func (c *Controller) Apply(ctx context.Context, batch []changes.Change, revision uint64) error {
	dirty := c.cfg.Index.Apply(batch, revision)
	if !c.leading.Load() {
		return nil
	}
	if c.recordDeleted(batch) {
		c.retryRefused() // an endpoint may have been refused because of the service
	}
	span := tracing.SpanFromContext(ctx)
	for key := range dirty {
		c.recordTrace(key, span)
		c.queue.Add(key)
	}
	return nil
}

// recordTrace records the trace of the change that made a service due. If there are several, it
// keeps the first.
func (c *Controller) recordTrace(key object.Name, span tracing.Span) {
	if !span.Recorded() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.traces[key]; !ok {
		c.traces[key] = span
	}
}

// continueTrace starts a span for a sync in the trace of the change that made the service due.
func (c *Controller) continueTrace(ctx context.Context, key object.Name) (context.Context, tracing.Span) {
	c.mu.Lock()
	span := c.traces[key]
	delete(c.traces, key)
	c.mu.Unlock()
	ctx, sync := tracing.Start(span.ContextWith(ctx), "sync")
	sync.Name("portolan.service", key.String())
	return ctx, sync
}

// recordDeleted records deleted services, and reports whether the batch has any.
func (c *Controller) recordDeleted(batch []changes.Change) (found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range batch {
		if change.Kind == "Service" && change.New == nil {
			c.deleted[object.Name{Namespace: change.Key.Namespace, Name: change.Key.Name}] = true
			found = true
		}
	}
	return found
}

// Lead syncs every service, and then each service that changes, until ctx is done. The context
// fences the writes.
func (c *Controller) Lead(ctx context.Context) {
	c.changeTimes.reset()
	c.leading.Store(true)
	defer c.leading.Store(false)
	defer c.failures.reset()
	defer c.refusals.clear()
	c.Resync()
	var workers sync.WaitGroup
	for range c.cfg.Workers {
		workers.Go(func() { c.runWorker(ctx) })
	}
	workers.Go(func() { c.recheckRefused(ctx) })
	workers.Wait()
}

// Leading reports whether this controller leads.
func (c *Controller) Leading() bool { return c.leading.Load() }

// Resync makes every service due, and returns their number.
func (c *Controller) Resync() int {
	keys := c.cfg.Index.Keys()
	for key := range keys {
		c.queue.Add(key)
	}
	return len(keys)
}

// Pending returns the number of services that are due or being synced.
func (c *Controller) Pending() int { return c.queue.Len() }

func (c *Controller) runWorker(ctx context.Context) {
	for {
		key, added, ok := c.queue.Get(ctx)
		if !ok {
			return
		}
		begin := time.Now()
		wrote, err := c.syncOne(ctx, key)
		c.queue.Done(key, err)
		c.metrics.synced(err, wrote, time.Since(begin), time.Since(added))
		if err != nil && ctx.Err() == nil {
			c.cfg.Log.Log(ctx, severity(err), "service not synced", "service", key.String(), "err", err)
		}
	}
}

// severity returns the level at which a failed sync is logged. It is low if an object was changed
// or deleted by others in the meantime, because that is ordinary.
func severity(err error) slog.Level {
	switch apierr.Code(err) {
	case codes.Aborted, codes.NotFound:
		return slog.LevelDebug
	default:
		return slog.LevelWarn
	}
}

func (c *Controller) syncOne(ctx context.Context, key object.Name) (wrote bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.SyncTimeout)
	defer cancel()
	ctx, span := c.continueTrace(ctx, key)
	t := &task{c: c, key: key, objects: c.cfg.Index.Read(key)}
	err = t.run(ctx)
	c.recordResult(ctx, key, t.objects.Service, err)
	span.End(err)
	return t.writes > 0, err
}

package controller

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/events"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/packing"
	"portolan.dev/services/queue"
)

// shard syncs the services of one shard while this replica holds it.
type shard struct {
	cfg         Config
	number      int
	queue       *queue.Queue[object.Name]
	events      *events.Reporter[eventKey]
	metrics     *metrics
	changeTimes *changeTimes
	failures    failures
	refusals    refusals
	memories    memories
	legacy      legacyPace

	holding sync.Mutex
	held    bool // guarded by holding

	mu     sync.Mutex
	traces map[object.Name]tracing.Span // guarded by mu: the traced change that made a service due
}

// newShard returns a shard that is not held. Its metrics are set by the controller.
func newShard(cfg Config, number int) *shard {
	return &shard{
		cfg: cfg, number: number, queue: queue.New[object.Name](cfg.Queue),
		events:      events.NewReporter[eventKey]("endpointctl", registryv1.NewEventServiceClient(cfg.Registry), cfg.Log),
		changeTimes: newChangeTimes(),
		failures:    failures{all: map[object.Name]Failure{}},
		refusals:    refusals{all: map[object.Name]packing.Refused{}},
		memories:    memories{all: map[object.Name]*packing.Memory{}},
		legacy:      legacyPace{interval: cfg.LegacyInterval, last: map[object.Name]legacyWrite{}},
		traces:      map[object.Name]tracing.Span{},
	}
}

// enqueue makes the services due that are affected by changes, if the shard is held.
func (c *shard) enqueue(span tracing.Span, serviceDeleted bool, affected index.Affected) {
	c.holding.Lock()
	defer c.holding.Unlock()
	if !c.held {
		return
	}
	if serviceDeleted {
		c.retryRefused() // an endpoint may have been refused because of the service
	}
	for key, n := range affected {
		c.recordTrace(key, span)
		c.queue.Add(key, n)
	}
}

// recordTrace records the trace of the change that made a service due. If there are several, it
// keeps the first.
func (c *shard) recordTrace(key object.Name, span tracing.Span) {
	if !span.Recorded() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.traces[key]; !ok {
		c.traces[key] = span
	}
}

func (c *shard) forgetTraces() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.traces)
}

// continueTrace starts a span for a sync in the trace of the change that made the service due.
func (c *shard) continueTrace(ctx context.Context, key object.Name) (context.Context, tracing.Span) {
	c.mu.Lock()
	span := c.traces[key]
	delete(c.traces, key)
	c.mu.Unlock()
	ctx, sync := tracing.Start(span.ContextWith(ctx), "sync")
	sync.Name("portolan.service", key.String())
	return ctx, sync
}

// lead syncs every service of the shard, and then each one that changes, until ctx is done. The
// context fences the writes.
func (c *shard) lead(ctx context.Context) {
	c.changeTimes.reset()
	c.setHeld(true)
	defer c.failures.reset()
	defer c.refusals.clear()
	defer c.memories.reset()
	defer c.legacy.reset()
	for _, step := range []string{stepSync, stepRemove} {
		defer c.cfg.Guard.Forget(step, func(o guard.Object) bool { return c.has(object.Name{Namespace: o.Namespace, Name: o.Name}) })
	}
	defer c.setHeld(false)
	c.resync()
	w := c.newWriter(ctx)
	var running sync.WaitGroup
	running.Go(func() { c.syncDue(ctx, w) })
	running.Go(func() { c.recheckRefused(ctx) })
	running.Wait()
}

// setHeld records whether this replica holds the shard. Services that wait when it is given up are
// dropped, because its next holder syncs them all.
func (c *shard) setHeld(held bool) {
	c.holding.Lock()
	defer c.holding.Unlock()
	c.held = held
	if !held {
		c.queue.Clear()
		c.forgetTraces()
	}
}

// isHeld reports whether this replica holds the shard.
func (c *shard) isHeld() bool {
	c.holding.Lock()
	defer c.holding.Unlock()
	return c.held
}

// resync makes every service of the shard due, if it is held, and returns their number.
func (c *shard) resync() int {
	c.holding.Lock()
	defer c.holding.Unlock()
	if !c.held {
		return 0
	}
	keys := c.cfg.Index.Keys(c.has)
	for key := range keys {
		c.queue.Add(key, 1)
	}
	return len(keys)
}

// has reports whether a service belongs to the shard.
func (c *shard) has(key object.Name) bool { return spec.ControllerShard(key, c.cfg.Shards) == c.number }

// syncDue syncs each service that becomes due, in a goroutine of its own, until ctx is done. At most
// Workers services are synced at a time.
func (c *shard) syncDue(ctx context.Context, w *writer) {
	var syncs sync.WaitGroup
	defer syncs.Wait()
	places := make(chan struct{}, c.cfg.Workers)
	for {
		places <- struct{}{} // a sync ends within SyncTimeout
		due, ok := c.queue.Get(ctx)
		if !ok {
			return
		}
		syncs.Go(func() {
			defer func() { <-places }()
			c.sync(ctx, w, due)
		})
	}
}

// sync syncs a service that is due, and records the outcome.
func (c *shard) sync(ctx context.Context, w *writer, due queue.Due[object.Name]) {
	begin := time.Now()
	t, err := c.syncOne(ctx, w, due.Key)
	c.queue.Done(due.Key, err, t.again)
	c.metrics.synced(due, begin, t.writes > 0, err)
	if err != nil && ctx.Err() == nil {
		c.cfg.Log.Log(ctx, severity(err), "service not synced", "service", due.Key.String(), "err", err)
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

// syncOne syncs a service, and returns the task, which has the results.
func (c *shard) syncOne(ctx context.Context, w *writer, key object.Name) (*task, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.SyncTimeout)
	defer cancel()
	ctx, span := c.continueTrace(ctx, key)
	t := &task{c: c, writer: w, key: key, objects: c.cfg.Index.Read(key)}
	err := c.cfg.Guard.Do(stepSync, serviceOf(key), func() error {
		if t.objects.Service == nil && c.cfg.Guard.Failed(changes.StepView, serviceOf(key)) {
			return errNotInView
		}
		return t.run(ctx)
	})
	if isPanic(err) {
		c.memories.forget(key)
		c.cfg.Guard.Run(stepRemove, serviceOf(key), func() { t.makeRemovals(ctx, err) })
	} else {
		c.cfg.Guard.Done(stepRemove, serviceOf(key))
	}
	c.recordResult(ctx, key, t.objects.Service, err)
	span.End(err)
	return t, err
}

// Steps of a sync that can panic apart.
const (
	stepSync   = "sync"
	stepRemove = "remove"
)

// errNotInView is the error for a service that exists and panicked when it was put into the view. Its slices stay.
var errNotInView = errors.New("the service is not in the view, because that panicked")

// serviceOf returns a service in the form of the guard.
func serviceOf(key object.Name) guard.Object {
	return guard.Object{Kind: "Service", Namespace: key.Namespace, Name: key.Name}
}

// isPanic reports whether an error is a panic, of which the guard has written an Event.
func isPanic(err error) bool {
	_, ok := errors.AsType[*guard.Panic](err)
	return ok
}

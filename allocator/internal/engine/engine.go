package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/kit/obs"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/store"
)

// maxAttempts is how often a batch is decided if another process has taken one of its values.
const maxAttempts = 5

// Config is the configuration of an [Engine].
type Config struct {
	Store   store.Store
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Rest is how long a released value is not allocated again while others are free.
	Rest time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Engine serves requests. Its methods may be called concurrently.
type Engine struct {
	store   store.Store
	log     *slog.Logger
	metrics *metrics
	rest    time.Duration
	clock   func() time.Time
	outage  obs.Outage // of the store
	group   *batch.Group[request, struct{}]

	mu       lock
	table    *allocation.Table // guarded by mu
	outdated bool              // guarded by mu: the table may differ from the store
}

// request decides one request. It may run again, on another table.
type request func(b *allocation.Table, now time.Time, c *allocation.Change)

// New reads the store and returns an engine. Close ends it.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	e := &Engine{
		store: cfg.Store, log: cfg.Log, rest: cfg.Rest, clock: cfg.Now, mu: newLock(),
		outage: obs.Outage{Log: cfg.Log, Down: "store refuses what is allocated", Up: "store takes what is allocated again"},
	}
	if e.clock == nil {
		e.clock = time.Now
	}
	if err := e.reload(ctx); err != nil {
		return nil, err
	}
	e.metrics = newMetrics(cfg.Metrics, e.Pools)
	e.group = batch.New(batch.Options[request]{MaxItems: 512, Observe: e.metrics.observe}, e.run)
	return e, nil
}

// Close waits for the running batch and refuses further ones.
func (e *Engine) Close() { e.group.Close() }

// now returns the time with the precision of the store.
func (e *Engine) now() time.Time { return e.clock().Truncate(time.Millisecond) }

// reload reads the table from the store. The caller holds mu, unless the engine is not shared yet.
func (e *Engine) reload(ctx context.Context) error {
	pools, err := e.store.Pools(ctx)
	if err != nil {
		return err
	}
	fresh, err := allocation.New(pools, e.rest)
	if err != nil {
		return err
	}
	if err := e.store.Load(ctx, fresh.Restore); err != nil {
		return fmt.Errorf("load allocations: %w", err)
	}
	e.table, e.outdated = fresh, false
	return nil
}

// submit runs a job as a part of a batch.
func (e *Engine) submit(ctx context.Context, j request) error {
	_, err := e.group.Do(ctx, j)
	if errors.Is(err, batch.ErrClosed) {
		return apierr.Unavailable("the allocator is stopping", time.Second)
	}
	return err
}

// run decides a batch and stores it.
func (e *Engine) run(ctx context.Context, requests []request) []batch.Outcome[struct{}] {
	e.mu.Lock()
	defer e.mu.Unlock()
	for range maxAttempts {
		err := e.runOnce(ctx, requests)
		var conflict *store.ConflictError
		switch {
		case err == nil:
			e.outage.Over()
			return make([]batch.Outcome[struct{}], len(requests))
		case errors.As(err, &conflict):
			e.log.Warn("value was taken elsewhere", "value", conflict.Value.String())
		default:
			e.outage.Failed(err)
			return batch.Fail[struct{}](len(requests), apierr.Unavailable("the allocator's store is not available", time.Second))
		}
	}
	return batch.Fail[struct{}](len(requests), apierr.Unavailable("too many others allocate the same values", time.Second))
}

func (e *Engine) runOnce(ctx context.Context, requests []request) error {
	if err := e.refresh(ctx); err != nil {
		return err
	}
	var (
		c   allocation.Change
		now = e.now()
	)
	for _, r := range requests {
		r(e.table, now, &c)
	}
	writes := c.Writes()
	if len(writes) == 0 {
		return nil
	}
	if err := e.store.Apply(ctx, writes); err != nil {
		c.Rollback(0) // readers must not see a partial batch until the table is read anew
		e.outdated = true
		return err
	}
	return nil
}

// Refresh reads the table from the store if the two may differ. A write that returned an error may
// have been stored; without Refresh only the next request would notice.
func (e *Engine) Refresh(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refresh(ctx)
}

func (e *Engine) refresh(ctx context.Context) error {
	if !e.outdated {
		return nil
	}
	return e.reload(ctx)
}

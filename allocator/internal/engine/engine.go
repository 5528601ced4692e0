package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/wake"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/store"
)

// maxAttempts is how often a batch is decided, if the table was outdated, or the database refused or
// lost the batch without having stored it.
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
	freed   *signal // values were freed

	mu       lock
	table    *allocation.Table // guarded by mu
	position store.Position    // guarded by mu: the state of the store that the table has
	outdated bool              // guarded by mu: the news since position cannot be had
	losses   uint64            // guarded by mu: how often the store went back
	adopted  uint64            // guarded by mu: the losses after which all values in use were allocated again
	lost     wake.Signal
}

// request decides one request. It may run again, on another table.
type request func(b *allocation.Table, now time.Time, c *allocation.Change)

// New reads the store and returns an engine. Close ends it.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	e := &Engine{
		store: cfg.Store, log: cfg.Log, rest: cfg.Rest, clock: cfg.Now, mu: newLock(), freed: newSignal(), lost: wake.New(),
		outage: obs.Outage{Log: cfg.Log, Down: "store refuses what is allocated", Up: "store takes what is allocated again"},
	}
	if e.clock == nil {
		e.clock = time.Now
	}
	if err := e.load(ctx); err != nil {
		return nil, err
	}
	e.metrics = newMetrics(cfg.Metrics, e.scrape, e.Reserves)
	e.group = batch.New(batch.Options[request]{MaxItems: 512, Observe: e.metrics.observe}, e.run)
	return e, nil
}

// Close waits for the running batch and refuses further ones.
func (e *Engine) Close() { e.group.Close() }

// now returns the time with the precision of the store.
func (e *Engine) now() time.Time { return e.clock().Truncate(time.Millisecond) }

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
	var c allocation.Change
	err := e.transact(ctx, func() (store.Batch, error) {
		now := e.now()
		for _, r := range requests {
			r(e.table, now, &c)
		}
		return c.Batch(), nil
	}, func() { c.Rollback(0) })
	if err != nil {
		return batch.Fail[struct{}](len(requests), unavailable)
	}
	if c.FreesValues() {
		e.freed.fire()
	}
	return make([]batch.Outcome[struct{}], len(requests))
}

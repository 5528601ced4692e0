package batch

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is the error of a request that was not run because the group was closed.
var ErrClosed = errors.New("batch group closed")

// Options are the limits of the batches of a Group.
type Options[Req any] struct {
	// MaxItems is the largest number of requests in a batch. Default: 256.
	MaxItems int
	// MaxBytes is the largest size of a batch in bytes, as counted by Size. A larger request is a
	// batch by itself. 0 means no limit.
	MaxBytes int
	// Size returns the size of a request in bytes. It is required with MaxBytes.
	Size func(Req) int
	// Timeout is the deadline of a batch. Default: 10s.
	Timeout time.Duration
	// Observe, if not nil, is called after each batch with the number of requests and the duration.
	Observe func(items int, took time.Duration)
}

// Outcome is the result of one request.
type Outcome[Res any] struct {
	Value Res
	Err   error
}

// Group runs requests in batches. Its methods are safe for concurrent use.
type Group[Req, Res any] struct {
	options Options[Req]
	run     func(context.Context, []Req) []Outcome[Res]

	mu      sync.Mutex
	waiting []*entry[Req, Res] // guarded by mu; oldest first
	running bool               // guarded by mu: a goroutine is in loop
	closed  bool               // guarded by mu
	loops   sync.WaitGroup
}

// entry is a waiting request.
type entry[Req, Res any] struct {
	req     Req
	taken   bool // guarded by the group's mu
	outcome Outcome[Res]
	call    *call[Req, Res]
}

// end sets the outcome, which must be done once.
func (e *entry[Req, Res]) end(outcome Outcome[Res]) {
	e.outcome = outcome
	if e.call.left.Add(-1) == 0 {
		close(e.call.done)
	}
}

// call holds the requests of one caller.
type call[Req, Res any] struct {
	entries []entry[Req, Res]
	left    atomic.Int64  // requests without an outcome
	done    chan struct{} // closed when none is left
}

func newCall[Req, Res any](requests ...Req) *call[Req, Res] {
	c := &call[Req, Res]{entries: make([]entry[Req, Res], len(requests)), done: make(chan struct{})}
	for i, req := range requests {
		c.entries[i].req, c.entries[i].call = req, c
	}
	c.left.Store(int64(len(requests)))
	return c
}

// New returns a group that calls run with one batch after the other, never concurrently. run
// returns one outcome per request, in the order of the requests. Its context is done only at the
// batch's deadline.
func New[Req, Res any](options Options[Req], run func(context.Context, []Req) []Outcome[Res]) *Group[Req, Res] {
	if options.MaxItems <= 0 {
		options.MaxItems = 256
	}
	if options.Timeout <= 0 {
		options.Timeout = 10 * time.Second
	}
	return &Group[Req, Res]{options: options, run: run}
}

// Do runs a request as part of a batch and returns its outcome. If ctx is done before the batch has
// started, the request is not run and the error is ctx.Err(). If the group is closed, the error is
// [ErrClosed].
func (g *Group[Req, Res]) Do(ctx context.Context, req Req) (Res, error) {
	c := newCall[Req, Res](req)
	g.wait(ctx, c)
	return c.entries[0].outcome.Value, c.entries[0].outcome.Err
}

// DoMany runs several requests, in their order, and returns the outcome of each. They are in one
// batch, together with the requests that waited before them, unless that exceeds the limits of a
// batch. DoMany returns the same errors as Do.
func (g *Group[Req, Res]) DoMany(ctx context.Context, requests []Req) []Outcome[Res] {
	if len(requests) == 0 {
		return nil
	}
	c := newCall[Req, Res](requests...)
	g.wait(ctx, c)
	outcomes := make([]Outcome[Res], len(requests))
	for i := range c.entries {
		outcomes[i] = c.entries[i].outcome
	}
	return outcomes
}

// wait enqueues the requests of a call, and returns when each has its outcome.
func (g *Group[Req, Res]) wait(ctx context.Context, c *call[Req, Res]) {
	if err := ctx.Err(); err != nil {
		c.fail(err)
		return
	}
	if !g.enqueue(c) {
		c.fail(ErrClosed)
		return
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		g.withdraw(c, ctx.Err())
		<-c.done
	}
}

// fail ends all requests of a call that was not enqueued.
func (c *call[Req, Res]) fail(err error) {
	for i := range c.entries {
		c.entries[i].end(Outcome[Res]{Err: err})
	}
}

// Close refuses waiting and further requests, and returns when the running batch is done.
func (g *Group[Req, Res]) Close() {
	g.mu.Lock()
	g.closed = true
	refused := g.waiting
	g.waiting = nil
	for _, e := range refused {
		if !e.taken {
			e.taken = true
			e.end(Outcome[Res]{Err: ErrClosed})
		}
	}
	g.mu.Unlock()
	g.loops.Wait()
}

func (g *Group[Req, Res]) enqueue(c *call[Req, Res]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	for i := range c.entries {
		g.waiting = append(g.waiting, &c.entries[i])
	}
	if !g.running {
		g.running = true
		g.loops.Go(g.loop)
	}
	return true
}

// withdraw ends the requests of a call that have not started.
func (g *Group[Req, Res]) withdraw(c *call[Req, Res], err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range c.entries {
		if e := &c.entries[i]; !e.taken {
			e.taken = true // nextBatch skips it
			e.end(Outcome[Res]{Err: err})
		}
	}
}

// loop runs batches until no requests wait. The first waiting request starts it, so an idle group
// has no goroutine.
func (g *Group[Req, Res]) loop() {
	for {
		// Let the callers of the last batch enqueue their next requests. It makes batches about
		// twice as large.
		runtime.Gosched()
		batch := g.nextBatch()
		if batch == nil {
			return
		}
		g.runBatch(batch)
	}
}

// nextBatch returns the next batch. If there is none, it marks the loop as ended and returns nil.
func (g *Group[Req, Res]) nextBatch() []*entry[Req, Res] {
	g.mu.Lock()
	defer g.mu.Unlock()
	var batch []*entry[Req, Res]
	taken, bytes := 0, 0
	for _, e := range g.waiting {
		if !e.taken {
			size := g.size(e.req)
			full := len(batch) == g.options.MaxItems || g.options.MaxBytes > 0 && bytes+size > g.options.MaxBytes
			if full && len(batch) > 0 {
				break
			}
			bytes += size
			e.taken = true
			batch = append(batch, e)
		}
		taken++
	}
	clear(g.waiting[:taken])
	g.waiting = g.waiting[taken:]
	if batch == nil {
		g.waiting, g.running = nil, false
	}
	return batch
}

func (g *Group[Req, Res]) size(req Req) int {
	if g.options.Size == nil {
		return 0
	}
	return g.options.Size(req)
}

func (g *Group[Req, Res]) runBatch(batch []*entry[Req, Res]) {
	ctx, cancel := context.WithTimeout(context.Background(), g.options.Timeout)
	defer cancel()
	requests := make([]Req, len(batch))
	for i, e := range batch {
		requests[i] = e.req
	}
	begin := time.Now()
	outcomes := g.run(ctx, requests)
	if len(outcomes) != len(batch) {
		panic("batch: run returned another number of outcomes than it was given requests")
	}
	if g.options.Observe != nil {
		g.options.Observe(len(batch), time.Since(begin))
	}
	for i, e := range batch {
		e.end(outcomes[i])
	}
}

// Fail returns n outcomes with the error err.
func Fail[Res any](n int, err error) []Outcome[Res] {
	outcomes := make([]Outcome[Res], n)
	for i := range outcomes {
		outcomes[i].Err = err
	}
	return outcomes
}

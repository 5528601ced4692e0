package batch

import (
	"context"
	"errors"
	"runtime"
	"sync"
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

type entry[Req, Res any] struct {
	req   Req
	taken bool // guarded by the group's mu
	done  chan Outcome[Res]
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
	var none Res
	if err := ctx.Err(); err != nil {
		return none, err
	}
	e := &entry[Req, Res]{req: req, done: make(chan Outcome[Res], 1)}
	if !g.enqueue(e) {
		return none, ErrClosed
	}
	select {
	case outcome := <-e.done:
		return outcome.Value, outcome.Err
	case <-ctx.Done():
	}
	if g.withdraw(e) {
		return none, ctx.Err()
	}
	outcome := <-e.done
	return outcome.Value, outcome.Err
}

// Close refuses waiting and further requests, and returns when the running batch is done.
func (g *Group[Req, Res]) Close() {
	g.mu.Lock()
	g.closed = true
	refused := g.waiting
	g.waiting = nil
	for _, e := range refused {
		e.taken = true
		e.done <- Outcome[Res]{Err: ErrClosed}
	}
	g.mu.Unlock()
	g.loops.Wait()
}

func (g *Group[Req, Res]) enqueue(e *entry[Req, Res]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.waiting = append(g.waiting, e)
	if !g.running {
		g.running = true
		g.loops.Go(g.loop)
	}
	return true
}

// withdraw removes a request that has not started, and reports whether it did.
func (g *Group[Req, Res]) withdraw(e *entry[Req, Res]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.taken {
		return false
	}
	e.taken = true // nextBatch skips started requests
	return true
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
		e.done <- outcomes[i]
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

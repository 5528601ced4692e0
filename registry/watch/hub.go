package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"portolan.dev/registry/view"
)

// ErrSlow says that changes were overwritten before the watcher took them.
var ErrSlow = errors.New("the watcher does not keep up")

// ErrReset says that history was replaced: revisions may mean other changes than before.
var ErrReset = errors.New("the history was replaced")

// Hub has the newest changes of every kind.
type Hub struct {
	limit int

	mu     sync.RWMutex
	start  uint64      // nothing before was published
	state  *view.State // everything up to here was published
	resets int         // how often history was replaced
	rings  map[string]*ring
}

// ring is the newest changes of one kind, as the batches in which the view took them.
type ring struct {
	floor   uint64 // the ring has every change after this revision
	first   uint64 // number of batches[0]; numbers are never used again
	batches []*Batch
	changes int           // in all batches
	wake    chan struct{} // closed when a batch is appended
}

// NewHub returns a hub for what comes after a state. It keeps up to limit changes of each kind.
func NewHub(state *view.State, limit int) *Hub {
	return &Hub{limit: limit, start: state.Revision(), state: state, rings: map[string]*ring{}}
}

func (h *Hub) ring(kind string) *ring {
	r := h.rings[kind]
	if r == nil {
		r = &ring{floor: h.start, wake: make(chan struct{})}
		h.rings[kind] = r
	}
	return r
}

// Publish appends a step of the view. It is called for every step, in order.
func (h *Hub) Publish(state *view.State, changes []*view.Change) {
	byKind := map[string]*Batch{}
	for _, change := range changes {
		kind := change.Last.Key.Kind
		if byKind[kind] == nil {
			byKind[kind] = &Batch{}
		}
		byKind[kind].entries = append(byKind[kind].entries, &entry{change: change})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for kind, batch := range byKind {
		r := h.ring(kind)
		r.append(batch, h.limit)
		close(r.wake)
		r.wake = make(chan struct{})
	}
	h.state = state
}

// append adds a batch and drops the oldest ones beyond the limit, but never the newest.
func (r *ring) append(batch *Batch, limit int) {
	r.batches = append(r.batches, batch)
	r.changes += len(batch.entries)
	drop := 0
	for r.changes > limit && drop < len(r.batches)-1 {
		r.changes -= len(r.batches[drop].entries)
		r.floor = r.batches[drop].last()
		drop++
	}
	clear(r.batches[:drop])
	r.batches = r.batches[drop:]
	r.first += uint64(drop)
}

// Reset ends all watches: the view was replaced.
func (h *Hub) Reset(state *view.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rings {
		close(r.wake)
	}
	h.rings, h.start, h.state = map[string]*ring{}, state.Revision(), state
	h.resets++
}

// Cursor is a place in the changes of a kind. It belongs to one goroutine.
type Cursor struct {
	hub    *Hub
	kind   string
	next   uint64 // number of the next batch
	resets int
	taken  []*Batch // what take returned last
}

// Cursor returns the place from which every change after revision will be seen; false if some of those are no longer in the ring.
func (h *Hub) Cursor(kind string, revision uint64) (*Cursor, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.ring(kind)
	if revision < r.floor {
		return nil, false
	}
	skip := 0
	for skip < len(r.batches) && r.batches[skip].last() <= revision {
		skip++
	}
	return &Cursor{hub: h, kind: kind, next: r.first + uint64(skip), resets: h.resets}, true
}

// Now returns the place behind everything that was published.
func (h *Hub) Now(kind string) *Cursor {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.ring(kind)
	return &Cursor{hub: h, kind: kind, next: r.first + uint64(len(r.batches)), resets: h.resets}
}

// take returns what is new, until it is called again, and the revision up to which it is complete. Where nothing is, wake is closed once something may be.
func (c *Cursor) take() (batches []*Batch, revision uint64, wake <-chan struct{}, err error) {
	h := c.hub
	h.mu.RLock()
	defer h.mu.RUnlock()
	if c.resets != h.resets {
		return nil, 0, nil, ErrReset
	}
	r := h.rings[c.kind] // there since the cursor is
	if c.next < r.first {
		return nil, 0, nil, ErrSlow
	}
	clear(c.taken)
	c.taken = append(c.taken[:0], r.batches[c.next-r.first:]...)
	c.next += uint64(len(c.taken))
	return c.taken, h.state.Revision(), r.wake, nil
}

// Next waits for changes. It returns those that are new, all of them, and the revision up to which they are complete; when bell rings, that may be
// none. The slice is the caller's until the next call. Errors: [ErrSlow], [ErrReset], that of ctx.
func (c *Cursor) Next(ctx context.Context, bell <-chan time.Time) ([]*Batch, uint64, error) {
	for rang := false; ; {
		batches, revision, wake, err := c.take()
		if err != nil || len(batches) > 0 || rang {
			return batches, revision, err
		}
		select {
		case <-wake:
		case <-bell:
			rang = true
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"portolan.dev/registry/internal/view"
)

// ErrTooSlow is returned if changes were dropped before the watcher had read them.
var ErrTooSlow = errors.New("the watcher does not keep up")

// ErrReset is returned if the history was replaced, so that a revision may stand for another change
// than before.
var ErrReset = errors.New("the history was replaced")

// Limits bound the changes that a hub keeps.
type Limits struct {
	// Changes is the limit for each kind.
	Changes int
	// Bytes is the approximate limit on the memory of all changes together. The newest batch of
	// each kind is always kept.
	Bytes int
}

// Hub keeps the newest changes of every kind.
type Hub struct {
	limits Limits

	mu     sync.RWMutex
	start  uint64      // revision at which publishing began
	state  *view.State // newest published state
	resets int         // number of times the history was replaced
	rings  map[string]*ring
	bytes  int // in all rings
}

// ring holds the newest changes of one kind, in the batches of the view's updates.
type ring struct {
	floor   uint64 // the ring has every change after this revision
	first   uint64 // number of batches[0]; numbers are never reused
	batches []*Batch
	changes int           // in all batches
	bytes   int           // in all batches
	wake    chan struct{} // closed when a batch is appended
}

// NewHub returns a hub for the changes after a state.
func NewHub(state *view.State, limits Limits) *Hub {
	return &Hub{limits: limits, start: state.Revision(), state: state, rings: map[string]*ring{}}
}

func (h *Hub) ring(kind string) *ring {
	r := h.rings[kind]
	if r == nil {
		r = &ring{floor: h.start, wake: make(chan struct{})}
		h.rings[kind] = r
	}
	return r
}

// Publish appends an update of the view. It must be called for every update, in order.
func (h *Hub) Publish(state *view.State, changes []*view.Change) {
	byKind := map[string]*Batch{}
	for _, change := range changes {
		kind := change.Last.Key.Kind
		if byKind[kind] == nil {
			byKind[kind] = &Batch{}
		}
		byKind[kind].add(change)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for kind, batch := range byKind {
		r := h.ring(kind)
		h.append(r, batch)
		close(r.wake)
		r.wake = make(chan struct{})
	}
	h.state = state
	h.trim()
}

// append adds a batch and drops the oldest batches of its kind beyond the limit of changes.
func (h *Hub) append(r *ring, batch *Batch) {
	r.batches = append(r.batches, batch)
	r.changes += len(batch.entries)
	r.bytes += batch.bytes
	h.bytes += batch.bytes
	for r.changes > h.limits.Changes && len(r.batches) > 1 {
		h.drop(r)
	}
}

// drop removes the oldest batch of a ring.
func (h *Hub) drop(r *ring) {
	oldest := r.batches[0]
	r.changes -= len(oldest.entries)
	r.bytes -= oldest.bytes
	h.bytes -= oldest.bytes
	r.floor = oldest.last()
	r.batches[0] = nil
	r.batches = r.batches[1:]
	r.first++
}

// trim drops the oldest batches of the largest rings until all rings together are within the limit
// of bytes. A kind that changes often therefore does not shorten the history of the others.
func (h *Hub) trim() {
	for h.bytes > h.limits.Bytes {
		var largest *ring
		for _, r := range h.rings {
			if len(r.batches) > 1 && (largest == nil || r.bytes > largest.bytes) {
				largest = r
			}
		}
		if largest == nil {
			return
		}
		h.drop(largest)
	}
}

// Bytes returns the approximate memory that the changes take.
func (h *Hub) Bytes() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.bytes
}

// Reset ends all watches because the view was replaced.
func (h *Hub) Reset(state *view.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rings {
		close(r.wake)
	}
	h.rings, h.bytes, h.start, h.state = map[string]*ring{}, 0, state.Revision(), state
	h.resets++
}

// Cursor is a position in the changes of a kind. It must be used by one goroutine only.
type Cursor struct {
	hub    *Hub
	kind   string
	next   uint64 // number of the next batch
	resets int
	result []*Batch // of the last read
}

// Cursor returns the position from which every change after revision will be seen. It returns false
// if some of those changes are no longer in the ring.
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

// Now returns the position after everything that was published.
func (h *Hub) Now(kind string) *Cursor {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.ring(kind)
	return &Cursor{hub: h, kind: kind, next: r.first + uint64(len(r.batches)), resets: h.resets}
}

// read returns the new batches, which are valid until the next call, and the revision up to which
// they are complete. wake is closed when a further batch is published.
func (c *Cursor) read() (batches []*Batch, revision uint64, wake <-chan struct{}, err error) {
	h := c.hub
	h.mu.RLock()
	defer h.mu.RUnlock()
	if c.resets != h.resets {
		return nil, 0, nil, ErrReset
	}
	r := h.rings[c.kind] // created with the cursor
	if c.next < r.first {
		return nil, 0, nil, ErrTooSlow
	}
	clear(c.result)
	c.result = append(c.result[:0], r.batches[c.next-r.first:]...)
	c.next += uint64(len(c.result))
	return c.result, h.state.Revision(), r.wake, nil
}

// Next waits for changes. It returns all new batches and the revision up to which they are
// complete. When bell rings, there may be no batches. The slice is valid until the next call.
// Errors: [ErrTooSlow], [ErrReset], the error of ctx.
func (c *Cursor) Next(ctx context.Context, bell <-chan time.Time) ([]*Batch, uint64, error) {
	for rang := false; ; {
		batches, revision, wake, err := c.read()
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

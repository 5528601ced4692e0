package watchcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
)

// ErrExpired is the error of a watch from a revision that is older than the history.
var ErrExpired = errors.New("the history of changes does not go back so far")

// Cache holds the objects and the recent changes. It is safe for concurrent use.
type Cache struct {
	guard *guard.Guard
	limit int // changes of each kind that are kept at least
	forms forms

	mu       sync.RWMutex
	synced   bool
	epoch    string
	era      uint64 // counts the times that the history was discarded
	revision uint64
	advanced chan struct{} // closed when the revision rises
	kinds    map[string]*kindHistory
}

// kindHistory holds the objects of one kind and their recent changes.
type kindHistory struct {
	objects map[object.Key]*Event // each is an event that creates the present object
	events  []*Event              // in the order of revisions
	floor   uint64                // events has all changes after this revision
	changed chan struct{}         // closed when there are more events, or when the history is discarded
}

// New returns an empty cache of the given kinds that keeps at least limit changes of each. It applies objects under a
// guard.
func New(limit int, kinds []string, g *guard.Guard) *Cache {
	c := &Cache{guard: g, limit: limit, forms: forms{limit: maxForms}, advanced: make(chan struct{}), kinds: make(map[string]*kindHistory, len(kinds))}
	for _, kind := range kinds {
		c.kinds[kind] = &kindHistory{objects: map[object.Key]*Event{}, changed: make(chan struct{})}
	}
	return c
}

// Apply adds a batch of changes up to a revision of an epoch of the log.
func (c *Cache) Apply(batch []changes.Change, revision uint64, epoch string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	anew := !c.synced || epoch != c.epoch || revision < c.revision || slices.ContainsFunc(batch, func(change changes.Change) bool {
		return change.Revision <= c.revision // the view was wrong, and is repaired
	})
	batch = slices.Clone(batch)
	slices.SortStableFunc(batch, func(a, b changes.Change) int { return cmp.Compare(a.Revision, b.Revision) })
	changes.Each(c.guard, batch, func(change *changes.Change) { c.apply(change, !anew) })
	if anew {
		c.discard(revision)
	}
	c.synced, c.epoch = true, epoch
	if revision != c.revision || anew {
		c.revision = revision
		close(c.advanced)
		c.advanced = make(chan struct{})
	}
}

// apply applies one change to the objects and, if record is set, adds it to the history.
func (c *Cache) apply(change *changes.Change, record bool) {
	kind := c.kinds[change.Kind]
	if change.New != nil {
		kind.objects[change.Key] = &Event{Revision: change.Revision, New: change.New, forms: &c.forms}
	} else {
		delete(kind.objects, change.Key)
	}
	if !record {
		return
	}
	kind.events = append(kind.events, &Event{Revision: change.Revision, Old: change.Old, New: change.New, forms: &c.forms})
	if len(kind.events) >= 2*c.limit {
		kept := len(kind.events) - c.limit
		kind.floor = kind.events[kept-1].Revision
		kind.events = slices.Clone(kind.events[kept:])
	}
	kind.wake()
}

// discard drops the history of all kinds. The new history begins at a revision.
func (c *Cache) discard(revision uint64) {
	c.era++
	for _, kind := range c.kinds {
		kind.events, kind.floor = nil, revision
		kind.wake()
	}
}

func (k *kindHistory) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// Revision returns the revision up to which the cache has all changes.
func (c *Cache) Revision() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revision
}

// WaitFor waits until the cache has all changes up to a revision, and the first snapshot. It returns an
// error if ctx is done first.
func (c *Cache) WaitFor(ctx context.Context, revision uint64) error {
	for {
		c.mu.RLock()
		synced, have, advanced := c.synced, c.revision, c.advanced
		c.mu.RUnlock()
		if synced && have >= revision {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the view is at revision %d: %w", have, ctx.Err())
		case <-advanced:
		}
	}
}

// Position is the place of a watch in the history.
type Position struct {
	Revision uint64 // the watch has all changes up to it
	era      uint64
}

// At returns the position after a revision.
func (c *Cache) At(revision uint64) Position {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return Position{Revision: revision, era: c.era}
}

// List returns the objects of a kind in no order, and the position after them. Each object is in an event
// that creates it, so that its encoded forms are shared too. A kind that the cache lacks has no objects.
func (c *Cache) List(kind string) ([]*Event, Position) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	at := Position{Revision: c.revision, era: c.era}
	history := c.kinds[kind]
	if history == nil {
		return nil, at
	}
	objects := make([]*Event, 0, len(history.objects))
	for _, o := range history.objects {
		objects = append(objects, o)
	}
	return objects, at
}

// Since returns the changes of a kind after a position, the position after them, and a channel that is
// closed when there are more. The error is ErrExpired if changes after the position are missing.
func (c *Cache) Since(kind string, from Position) (events []*Event, next Position, changed <-chan struct{}, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	history := c.kinds[kind]
	next = Position{Revision: max(from.Revision, c.revision), era: c.era}
	switch {
	case from.era != c.era:
		return nil, from, nil, ErrExpired
	case history == nil: // a kind that Portolan lacks has no changes
		return nil, next, nil, nil
	case from.Revision < history.floor:
		return nil, from, nil, ErrExpired
	}
	first, _ := slices.BinarySearchFunc(history.events, from.Revision+1, func(e *Event, revision uint64) int { return cmp.Compare(e.Revision, revision) })
	return slices.Clip(history.events[first:]), next, history.changed, nil
}

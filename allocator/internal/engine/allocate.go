package engine

import (
	"context"
	"time"

	"portolan.dev/allocator/internal/book"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Set holds the claims of one owner that are served together.
type Set struct {
	Owner store.Owner
	Wants []book.Want
}

// SetResult is the result of a set: the values in the order of the wants, or the failures.
type SetResult struct {
	Got      []book.Got
	Failures []book.Failure
}

// Slots names slots of an owner. Without slots it names all of them.
type Slots struct {
	UID   string
	Slots []string
}

// Allocate serves each set as a whole or not at all. With dry it allocates nothing.
func (e *Engine) Allocate(ctx context.Context, sets []Set, dry bool) ([]SetResult, error) {
	var results []SetResult
	err := e.do(ctx, func(b *book.Book, now time.Time, c *book.Change) {
		results = make([]SetResult, len(sets))
		mark := c.Mark()
		for i, s := range sets {
			results[i].Got, results[i].Failures = b.Allocate(now, s.Owner, s.Wants, c)
		}
		if dry {
			c.Rollback(mark)
		}
	})
	if err != nil {
		return nil, err
	}
	if !dry {
		e.metrics.count(sets, results)
	}
	return results, nil
}

// Confirm makes held values permanent. It returns how many slots have a confirmed value now, and
// the slots that their owners do not have.
func (e *Engine) Confirm(ctx context.Context, owners []Slots) (confirmed int, unknown []string, err error) {
	err = e.do(ctx, func(b *book.Book, now time.Time, c *book.Change) {
		confirmed, unknown = 0, nil
		for _, o := range owners {
			n, missing := b.Confirm(now, o.UID, o.Slots, c)
			confirmed += n
			unknown = append(unknown, missing...)
		}
	})
	return confirmed, unknown, err
}

// Release releases values. It returns how many are free now.
func (e *Engine) Release(ctx context.Context, owners []Slots) (released int, err error) {
	err = e.do(ctx, func(b *book.Book, now time.Time, c *book.Change) {
		released = 0
		for _, o := range owners {
			released += len(b.Release(now, o.UID, o.Slots, c))
		}
	})
	return released, err
}

// Reclaim frees values whose holding has not changed since it was seen. It returns the freed
// values.
func (e *Engine) Reclaim(ctx context.Context, seen []book.Held) (freed []pool.Value, err error) {
	err = e.do(ctx, func(b *book.Book, now time.Time, c *book.Change) {
		freed = nil
		for _, h := range seen {
			if b.Reclaim(now, h, c) {
				freed = append(freed, h.Value)
			}
		}
	})
	return freed, err
}

// Held returns all values in use, in any order.
func (e *Engine) Held() []book.Held {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []book.Held
	e.book.Each(func(h book.Held) { all = append(all, h) })
	return all
}

// Holds reports whether an owner has a value.
func (e *Engine) Holds(uid string, v pool.Value) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.book.Holds(uid, v)
}

// OwnerOf returns the owner of a value, and whether it has one.
func (e *Engine) OwnerOf(v pool.Value) (store.Owner, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.book.OwnerOf(v)
}

// RestsSince returns since when a value rests, and whether it does.
func (e *Engine) RestsSince(v pool.Value) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.book.RestsSince(v)
}

// Forget removes values from the store that have rested long enough. In memory they are free
// already.
func (e *Engine) Forget(ctx context.Context) error {
	return e.store.Forget(ctx, e.now().Add(-e.rest))
}

// List returns the holdings that match the query, directly from the store.
func (e *Engine) List(ctx context.Context, q store.Query) ([]store.Holding, error) {
	return e.store.List(ctx, q)
}

// ListBy returns the holdings of an owner that match the query.
func (e *Engine) ListBy(uid string, q store.Query) []store.Holding {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.book.ListBy(uid, q)
}

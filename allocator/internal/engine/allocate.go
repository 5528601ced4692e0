package engine

import (
	"cmp"
	"context"
	"time"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Set holds the claims of one owner that are served together.
type Set struct {
	Owner    store.Owner
	Requests []allocation.ClaimRequest
}

// SetResult is the result of a set: the values in the order of the claims, or the failures.
type SetResult struct {
	Results  []allocation.ClaimResult
	Failures []allocation.Failure
}

// OwnerSlots names slots of an owner. Without slots it names all of them.
type OwnerSlots struct {
	UID   string
	Slots []string
	// Values, for Release, are values of the owner that may still be in a reserve.
	Values []pool.Value
}

// Allocate serves each set as a whole or not at all. With dryRun it allocates nothing. Values in
// reserves that a claim requests are recalled; AllocatePatiently also waits for them.
func (e *Engine) Allocate(ctx context.Context, sets []Set, dryRun bool) ([]SetResult, error) {
	results, err := e.allocate(ctx, sets, dryRun)
	if err == nil && !dryRun {
		e.metrics.count(sets, results)
	}
	return results, err
}

// Adopt is Allocate for values that objects already have. It works even after the store went back.
func (e *Engine) Adopt(ctx context.Context, sets []Set) ([]SetResult, error) {
	var results []SetResult
	if err := e.submit(ctx, allocateAll(sets, false, &results)); err != nil {
		return nil, err
	}
	e.metrics.count(sets, results)
	return results, nil
}

func (e *Engine) allocate(ctx context.Context, sets []Set, dryRun bool) ([]SetResult, error) {
	var results []SetResult
	var refused error
	if err := e.submit(ctx, e.ofClient(&refused, allocateAll(sets, dryRun, &results))); err != nil || refused != nil {
		return nil, cmp.Or(err, refused)
	}
	return results, nil
}

// allocateAll returns the decision about sets.
func allocateAll(sets []Set, dryRun bool, all *[]SetResult) request {
	return func(b *allocation.Table, now time.Time, c *allocation.Change) {
		results := make([]SetResult, len(sets))
		*all = results
		mark := c.Mark()
		for i, s := range sets {
			results[i].Results, results[i].Failures = b.Allocate(now, s.Owner, s.Requests, c)
		}
		if dryRun {
			c.Rollback(mark)
		}
		recall(b, now, results, c)
	}
}

// Confirm makes held values permanent. It returns how many slots have a confirmed value now, and
// the slots that their owners do not have.
func (e *Engine) Confirm(ctx context.Context, owners []OwnerSlots) (confirmed int, unknown []string, err error) {
	err = e.submit(ctx, func(b *allocation.Table, now time.Time, c *allocation.Change) {
		confirmed, unknown = 0, nil
		for _, o := range owners {
			n, missing := b.Confirm(now, o.UID, o.Slots, c)
			confirmed += n
			unknown = append(unknown, missing...)
		}
	})
	return confirmed, unknown, err
}

// Release releases values, also values that are still in reserves. It returns how many are free now.
func (e *Engine) Release(ctx context.Context, owners []OwnerSlots) (released int, err error) {
	err = e.submit(ctx, func(b *allocation.Table, now time.Time, c *allocation.Change) {
		released = 0
		for _, o := range owners {
			released += len(b.Release(now, o.UID, o.Slots, c)) + len(b.ReleaseReserved(now, o.UID, o.Values, c))
		}
	})
	return released, err
}

// Reclaim frees the values of the given allocations and returns the freed values. An allocation
// that has changed since the caller read it stays.
func (e *Engine) Reclaim(ctx context.Context, seen []allocation.Allocation) (freed []pool.Value, err error) {
	err = e.submit(ctx, func(b *allocation.Table, now time.Time, c *allocation.Change) {
		freed = nil
		for _, h := range seen {
			if b.Reclaim(now, h, c) {
				freed = append(freed, h.Value)
			}
		}
	})
	return freed, err
}

// Replace frees the value of an allocation as Reclaim does, and serves a set in the same transaction, so
// that the set gets the value before others.
func (e *Engine) Replace(ctx context.Context, seen allocation.Allocation, set Set) (result SetResult, err error) {
	err = e.submit(ctx, func(b *allocation.Table, now time.Time, c *allocation.Change) {
		b.Reclaim(now, seen, c)
		result.Results, result.Failures = b.Allocate(now, set.Owner, set.Requests, c)
	})
	return result, err
}

// AllocationOf returns the allocation of a value, and whether it has one.
func (e *Engine) AllocationOf(v pool.Value) (allocation.Allocation, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table.AllocationOf(v)
}

// Allocations returns all values in use or in reserves, in any order.
func (e *Engine) Allocations() []allocation.Allocation {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []allocation.Allocation
	e.table.Each(func(h allocation.Allocation) { all = append(all, h) })
	return all
}

// Owns reports whether an owner has a value.
func (e *Engine) Owns(uid string, v pool.Value) bool {
	owner, ok := e.OwnerOf(v)
	return ok && owner.UID == uid
}

// IsPerProtocol reports whether a port is of a pool with one value for each protocol.
func (e *Engine) IsPerProtocol(port pool.Value) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table.IsPerProtocol(port)
}

// OwnerOf returns the owner of a value, and whether it has one.
func (e *Engine) OwnerOf(v pool.Value) (store.Owner, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table.OwnerOf(v)
}

// RestingSince returns since when a value rests, and whether it does.
func (e *Engine) RestingSince(v pool.Value) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table.RestingSince(v)
}

// DeleteExpired removes values from the store that have rested long enough. In memory they are free
// already.
func (e *Engine) DeleteExpired(ctx context.Context) error {
	return e.store.DeleteExpired(ctx, e.now().Add(-e.rest))
}

// List returns the allocations that match the query, directly from the store.
func (e *Engine) List(ctx context.Context, q store.Query) ([]store.Allocation, error) {
	return e.store.List(ctx, q)
}

// ListBy returns the allocations of an owner that match the query.
func (e *Engine) ListBy(uid string, q store.Query) []store.Allocation {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table.ListBy(uid, q)
}

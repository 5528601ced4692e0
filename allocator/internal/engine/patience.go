package engine

import (
	"context"
	"fmt"
	"time"

	"portolan.dev/services/kit/apierr"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/pool"
)

const (
	// Patience is how long a request waits for values in reserves. Holders return them with their
	// next calls, within about a second. It is shorter than the timeout of a registry's call, so that
	// the registry gets the reason.
	Patience = 3 * time.Second
	// lookEvery is the time after which a waiting request is tried again even if this process has
	// freed no value, because another process on the same store may have.
	lookEvery = 200 * time.Millisecond
)

// AllocatePatiently is Allocate, except that sets that only lack values in reserves wait for them, for
// the time of Patience at most. After that they fail because the values are at hand elsewhere. The other
// sets are served at once, but AllocatePatiently returns when all sets are served or have failed.
func (e *Engine) AllocatePatiently(ctx context.Context, sets []Set, dryRun bool) ([]SetResult, error) {
	var (
		results []SetResult
		waiting []int // indexes of the sets that wait
	)
	err := e.waitFor(ctx, func() (bool, error) {
		again, err := e.allocate(ctx, some(sets, waiting, results == nil), dryRun)
		if err != nil && results == nil {
			return false, err
		}
		if err != nil {
			return true, nil // the other sets are served
		}
		if results == nil {
			results = again
		}
		for i, at := range waiting {
			results[at] = again[i]
		}
		waiting = atHand(results)
		return len(waiting) == 0, nil
	})
	if err == nil && !dryRun {
		e.metrics.count(sets, results)
	}
	return results, err
}

// some returns all sets, or those with the given indexes.
func some(sets []Set, indexes []int, all bool) []Set {
	if all {
		return sets
	}
	chosen := make([]Set, len(indexes))
	for i, at := range indexes {
		chosen[i] = sets[at]
	}
	return chosen
}

// atHand returns the indexes of the sets that only lack values in reserves.
func atHand(results []SetResult) []int {
	var waiting []int
	for i, r := range results {
		if len(r.Failures) > 0 && r.Failures[0].IsAtHand() {
			waiting = append(waiting, i)
		}
	}
	return waiting
}

// waitFor calls try at once and whenever values were freed, until try returns true or an error, or
// Patience or ctx is over.
func (e *Engine) waitFor(ctx context.Context, try func() (bool, error)) error {
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		freed := e.freed.wait()
		if done, err := try(); done || err != nil {
			return err
		}
		select {
		case <-freed:
		case <-look.C:
		case <-patience.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// recall recalls the values in reserves that claims request.
func recall(b *allocation.Table, now time.Time, results []SetResult, c *allocation.Change) {
	for _, r := range results {
		for _, f := range r.Failures {
			if f.Recall != (pool.Value{}) {
				b.Recall(now, f.Recall, c)
			}
		}
	}
}

// bringBack recalls the values of a pool that are in reserves and not in a range, and waits for them.
// It returns an error of the API if they do not come back in time.
func (e *Engine) bringBack(ctx context.Context, name string, space pool.Space) error {
	var outside []pool.Value
	err := e.waitFor(ctx, func() (bool, error) {
		err := e.submit(ctx, func(b *allocation.Table, now time.Time, c *allocation.Change) {
			outside = b.ReservedOutside(name, space)
			for _, v := range outside {
				b.Recall(now, v, c)
			}
		})
		return len(outside) == 0, err
	})
	if err == nil && len(outside) > 0 {
		return apierr.FailedPrecondition(fmt.Sprintf("pool %q: %d values are at hand at registries that have not returned them yet, such as %s; try again", name, len(outside), outside[0]))
	}
	return err
}

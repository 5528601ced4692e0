package engine

import (
	"cmp"
	"context"
	"time"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/store"
)

// Reserve serves a call of the holder of a reserve. It returns the errors of [allocation.Table.Reserve],
// and an error of the API if the store fails.
func (e *Engine) Reserve(ctx context.Context, req allocation.ReserveRequest) (allocation.ReserveResult, error) {
	var (
		res           allocation.ReserveResult
		lost, refused error
	)
	err := e.submit(ctx, e.ofClient(&lost, func(b *allocation.Table, now time.Time, c *allocation.Change) {
		res, refused = b.Reserve(now, req, c)
	}))
	if err = cmp.Or(err, lost); err == nil {
		err = refused
	}
	if err == nil {
		e.metrics.ignored.Add(float64(res.Ignored))
	}
	return res, err
}

// Reserves returns the reserves, ordered by holder.
func (e *Engine) Reserves() []store.Reserve {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table.Reserves()
}

// Lapsed returns the holders of the reserves that were not renewed in time.
func (e *Engine) Lapsed(ctx context.Context) (holders []string, err error) {
	if len(lapsed(e.Reserves(), e.now())) == 0 {
		return nil, nil
	}
	// Another process on the same store may have renewed them.
	err = e.submit(ctx, func(b *allocation.Table, now time.Time, _ *allocation.Change) { holders = lapsed(b.Reserves(), now) })
	return holders, err
}

func lapsed(reserves []store.Reserve, now time.Time) []string {
	var holders []string
	for _, r := range reserves {
		if now.Sub(r.Renewed) >= allocation.Lease {
			holders = append(holders, r.Holder)
		}
	}
	return holders
}

// CloseReserves ends reserves in one transaction. No value of them may be stored in an object after that.
// ownerOf returns the objects that have values of them. CloseReserves returns the number of reserves that
// existed.
func (e *Engine) CloseReserves(ctx context.Context, holders []string, ownerOf allocation.OwnerOf) (closed int, err error) {
	err = e.submit(ctx, func(b *allocation.Table, now time.Time, c *allocation.Change) {
		closed = 0
		for _, holder := range holders {
			if b.CloseReserve(now, holder, ownerOf, c) {
				closed++
			}
		}
	})
	if err == nil {
		e.metrics.closed.Add(float64(closed))
	}
	return closed, err
}

// HolderSettlement is a settlement of a value of a holder's reserve.
type HolderSettlement struct {
	Holder string
	allocation.Settlement
}

// Settle gives values of reserves to the objects that have them, and returns the number of values that
// were still in their reserves.
func (e *Engine) Settle(ctx context.Context, settlements []HolderSettlement) (settled int, err error) {
	err = e.submit(ctx, func(b *allocation.Table, now time.Time, c *allocation.Change) {
		settled = 0
		for _, s := range settlements {
			if b.Settle(now, s.Holder, s.Settlement, c) {
				settled++
			}
		}
	})
	return settled, err
}

package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"portolan.dev/services/kit/apierr"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/store"
)

// unavailable is the answer to requests that were not stored.
var unavailable = apierr.Unavailable("the allocator's store is not available", time.Second)

// load reads the table from the store. The caller holds mu, unless the engine is not shared yet.
func (e *Engine) load(ctx context.Context) error {
	return e.store.Snapshot(ctx, func(s store.Snapshot) error {
		fresh, err := allocation.New(s.Pools, e.rest)
		if err != nil {
			return err
		}
		for _, r := range s.Reserves {
			fresh.RestoreReserve(r)
		}
		for h, err := range s.Allocations {
			if err != nil {
				return err
			}
			if err := fresh.Restore(h); err != nil {
				return err
			}
		}
		e.table, e.position, e.outdated = fresh, s.Position, false
		return nil
	})
}

// update changes the table by news. The caller holds mu.
func (e *Engine) update(n store.News) error {
	if err := e.table.Update(n, e.now()); err != nil {
		e.outdated = true
		return errors.Join(store.ErrOutdated, err)
	}
	e.position = n.Position
	if frees(n) {
		e.freed.fire()
	}
	return nil
}

// frees reports whether others have freed values.
func frees(n store.News) bool {
	return len(n.Free) > 0 || slices.ContainsFunc(n.Allocations, func(h store.Allocation) bool { return !h.Released.IsZero() })
}

// transact lets decide change the table, from the present state of the store, and stores the batch
// that it returns. Unless the batch is stored, undo reverts the changes of decide to the table, and the
// next call reads from the store whether the batch was stored after all. decide runs again if nothing was
// stored for a reason that is over. An error of decide is returned as it is. The caller holds mu.
func (e *Engine) transact(ctx context.Context, decide func() (store.Batch, error), undo func()) error {
	var err error
	for range maxAttempts {
		if err = e.transactOnce(ctx, decide, undo); !repeatable(err) {
			break
		}
		e.log.Warn("batch is decided again", "err", err)
	}
	if err == nil {
		e.outage.Over()
		return nil
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused.error
	}
	e.outage.Failed(err)
	return err
}

// refusal is an error of the decision, not of the store.
type refusal struct{ error }

func repeatable(err error) bool {
	_, conflict := errors.AsType[*store.ConflictError](err)
	return conflict || errors.Is(err, store.ErrOutdated) || errors.Is(err, store.ErrWentBack) || errors.Is(err, store.ErrNotStored)
}

func (e *Engine) transactOnce(ctx context.Context, decide func() (store.Batch, error), undo func()) error {
	if e.outdated {
		if err := e.load(ctx); err != nil {
			return err
		}
	}
	position, err := e.store.Transact(ctx, e.position, func(n store.News) (store.Batch, error) {
		if err := e.update(n); err != nil {
			return store.Batch{}, err
		}
		b, err := decide()
		if err != nil {
			return b, &refusal{err}
		}
		return b, nil
	})
	if err != nil {
		undo()
		e.note(err)
		return err
	}
	e.position = position
	return nil
}

// note marks the table as outdated if an error of the store shows that it is. If the store went back, note
// also has the verifier take over the values in use again. The caller holds mu.
func (e *Engine) note(err error) {
	_, conflict := errors.AsType[*store.ConflictError](err)
	if conflict || errors.Is(err, store.ErrOutdated) || errors.Is(err, store.ErrWentBack) {
		e.outdated = true
	}
	if !errors.Is(err, store.ErrWentBack) {
		return
	}
	e.log.Error("the store was replaced by another state: the values in use are taken over again before others are allocated")
	e.losses++
	e.lost.Send()
}

// Refresh makes the table agree with the store: it has everything that any process stored before.
func (e *Engine) Refresh(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refresh(ctx)
}

func (e *Engine) refresh(ctx context.Context) error {
	if !e.outdated {
		n, err := e.store.News(ctx, e.position)
		if err == nil {
			err = e.update(n)
		}
		if e.note(err); !e.outdated {
			return err
		}
	}
	return e.load(ctx)
}

// errLost is the answer to clients that want values.
var errLost = apierr.Unavailable("the allocator's store went back to an older state, and the values in use are not all known again yet", time.Second)

// Lost returns a channel that receives when the store went back to an older state, or was filled
// anew, while the engine ran. From then on clients get no values until [Engine.Adopted] is called,
// because values that were allocated since then look free.
func (e *Engine) Lost() <-chan struct{} { return e.lost }

// Losses returns how often the store went back.
func (e *Engine) Losses() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.losses
}

// Adopted ends the refusal of clients: all values in use are allocated to the objects that have them,
// by calls after Losses returned losses.
func (e *Engine) Adopted(losses uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.adopted = losses
}

// ofClient makes a request of a client from a decision. The request is refused if the values in use are
// not known.
func (e *Engine) ofClient(refused *error, decide request) request {
	return func(b *allocation.Table, now time.Time, c *allocation.Change) {
		if *refused = nil; e.losses != e.adopted {
			*refused = errLost
			return
		}
		decide(b, now, c)
	}
}

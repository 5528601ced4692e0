package engine

import (
	"context"
	"time"

	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Pools returns the pools with their fill levels, ordered by name, as this process knows them.
func (e *Engine) Pools() []allocation.PoolStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table.Pools(e.now())
}

// scrapeTimeout limits how long metrics wait for the store.
const scrapeTimeout = time.Second

// scrape returns the pools for the metrics: as they are in the store if it answers, and otherwise as
// this process knows them.
func (e *Engine) scrape() []allocation.PoolStatus {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if err := e.Refresh(ctx); err != nil {
		e.log.Debug("metrics of pools are not current", "err", err)
	}
	return e.Pools()
}

// CreatePool adds a pool. It returns errors of the API.
func (e *Engine) CreatePool(ctx context.Context, p store.Pool) (allocation.PoolStatus, error) {
	return e.putPool(ctx, func() (store.Pool, error) { return e.table.CheckCreate(p) })
}

// UpdatePool changes the range or the state of a pool. Values in reserves that the new range leaves
// out are recalled before. If the pool drains or is retired, UpdatePool waits for its values in
// reserves, for the time of Patience at most, so that objects get none of them afterwards. It returns
// errors of the API.
func (e *Engine) UpdatePool(ctx context.Context, p store.Pool) (allocation.PoolStatus, error) {
	if space, err := pool.Parse(p.Range); p.Range != "" && err == nil {
		if err := e.bringBack(ctx, p.Name, space); err != nil {
			return allocation.PoolStatus{}, err
		}
	}
	fill, err := e.putPool(ctx, func() (store.Pool, error) { return e.table.CheckUpdate(p) })
	if err != nil || fill.State == allocatorv1.PoolState_POOL_STATE_ACTIVE || fill.Reserved == 0 {
		return fill, err
	}
	err = e.waitFor(ctx, func() (bool, error) {
		fill, err = e.freshFill(ctx, p.Name)
		return fill.Reserved == 0, err
	})
	return fill, err
}

// freshFill returns the present fill level of a pool, including changes of other processes on the same
// store.
func (e *Engine) freshFill(ctx context.Context, name string) (fill allocation.PoolStatus, err error) {
	err = e.submit(ctx, func(b *allocation.Table, now time.Time, _ *allocation.Change) { fill, _ = b.PoolStatus(name, now) })
	return fill, err
}

func (e *Engine) putPool(ctx context.Context, check func() (store.Pool, error)) (allocation.PoolStatus, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, err := e.changePool(ctx, func() (store.PoolWrite, error) {
		p, err := check()
		return store.PoolWrite{Pool: p}, err
	})
	if err != nil {
		return allocation.PoolStatus{}, err
	}
	if err := e.table.PutPool(p, e.now()); err != nil {
		e.outdated = true // the next call reads the table anew
		return allocation.PoolStatus{}, unavailable
	}
	fill, _ := e.table.PoolStatus(p.Name, e.now())
	return fill, nil
}

// DeletePool removes a retired pool. It waits until reserves have returned the pool's values. It returns
// errors of the API.
func (e *Engine) DeletePool(ctx context.Context, name string) error {
	if e.isRetired(name) {
		if err := e.bringBack(ctx, name, pool.Space{}); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err := e.changePool(ctx, func() (store.PoolWrite, error) {
		return store.PoolWrite{Pool: store.Pool{Name: name}, Removed: true}, e.table.CheckDelete(name)
	})
	if err == nil {
		e.table.RemovePool(name)
	}
	return err
}

func (e *Engine) isRetired(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	fill, ok := e.table.PoolStatus(name, e.now())
	return ok && fill.State == allocatorv1.PoolState_POOL_STATE_RETIRED
}

// changePool stores a change of a pool and returns the pool. The table is changed only when it is
// stored, because a change of a pool cannot be undone in memory. The caller holds mu.
func (e *Engine) changePool(ctx context.Context, decide func() (store.PoolWrite, error)) (store.Pool, error) {
	var w store.PoolWrite
	err := e.transact(ctx, func() (b store.Batch, err error) {
		w, err = decide()
		return store.Batch{Pools: []store.PoolWrite{w}}, err
	}, func() {})
	if _, ofAPI := status.FromError(err); err != nil && !ofAPI {
		err = unavailable
	}
	return w.Pool, err
}

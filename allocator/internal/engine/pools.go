package engine

import (
	"context"
	"errors"

	"portolan.dev/services/kit/apierr"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/store"
)

// Pools returns the pools with their fill levels, ordered by name.
func (e *Engine) Pools() []allocation.PoolStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table.Pools(e.now())
}

// CreatePool adds a pool. It returns errors of the API.
func (e *Engine) CreatePool(ctx context.Context, p store.Pool) (allocation.PoolStatus, error) {
	return e.changePool(ctx, p, (*allocation.Table).CheckCreate, e.store.CreatePool)
}

// UpdatePool changes the range or the state of a pool. It returns errors of the API.
func (e *Engine) UpdatePool(ctx context.Context, p store.Pool) (allocation.PoolStatus, error) {
	return e.changePool(ctx, p, (*allocation.Table).CheckUpdate, e.store.UpdatePool)
}

func (e *Engine) changePool(
	ctx context.Context, p store.Pool, check func(*allocation.Table, store.Pool) (store.Pool, error), save func(context.Context, store.Pool) error,
) (allocation.PoolStatus, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refresh(ctx); err != nil {
		return allocation.PoolStatus{}, poolError(p.Name, err)
	}
	p, err := check(e.table, p)
	if err != nil {
		return allocation.PoolStatus{}, err
	}
	if err := save(ctx, p); err != nil {
		e.outdated = true
		return allocation.PoolStatus{}, poolError(p.Name, err)
	}
	if err := e.table.PutPool(p, e.now()); err != nil {
		e.outdated = true
		return allocation.PoolStatus{}, apierr.Internal(err)
	}
	fill, _ := e.table.PoolStatus(p.Name, e.now())
	return fill, nil
}

// DeletePool removes a retired pool. It returns errors of the API.
func (e *Engine) DeletePool(ctx context.Context, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refresh(ctx); err != nil {
		return poolError(name, err)
	}
	if err := e.table.CheckDelete(name); err != nil {
		return err
	}
	if err := e.store.DeletePool(ctx, name); err != nil {
		e.outdated = true
		return poolError(name, err)
	}
	e.table.RemovePool(name)
	return nil
}

// poolError converts an error of the store to an error of the API. After the checks of the table,
// such an error occurs only if another process has changed the pools, or if the store fails.
func poolError(name string, err error) error {
	switch {
	case errors.Is(err, store.ErrPoolExists):
		return apierr.AlreadyExists("Pool", name)
	case errors.Is(err, store.ErrPoolNotFound):
		return apierr.NotFound("Pool", name)
	case errors.Is(err, store.ErrPoolInUse):
		return apierr.FailedPrecondition("pool has values in use")
	default:
		return apierr.Internal(err)
	}
}

package engine

import (
	"context"
	"errors"

	"portolan.dev/services/kit/apierr"

	"portolan.dev/allocator/internal/book"
	"portolan.dev/allocator/store"
)

// Pools returns the pools with their fill levels, ordered by name.
func (e *Engine) Pools() []book.Fill {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.book.Pools(e.now())
}

// CreatePool adds a pool. It returns errors of the API.
func (e *Engine) CreatePool(ctx context.Context, p store.Pool) (book.Fill, error) {
	return e.changePool(ctx, p, (*book.Book).CheckCreate, e.store.CreatePool)
}

// UpdatePool changes the range or the state of a pool. It returns errors of the API.
func (e *Engine) UpdatePool(ctx context.Context, p store.Pool) (book.Fill, error) {
	return e.changePool(ctx, p, (*book.Book).CheckUpdate, e.store.UpdatePool)
}

func (e *Engine) changePool(
	ctx context.Context, p store.Pool, check func(*book.Book, store.Pool) (store.Pool, error), save func(context.Context, store.Pool) error,
) (book.Fill, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refresh(ctx); err != nil {
		return book.Fill{}, poolError(p.Name, err)
	}
	p, err := check(e.book, p)
	if err != nil {
		return book.Fill{}, err
	}
	if err := save(ctx, p); err != nil {
		e.stale = true
		return book.Fill{}, poolError(p.Name, err)
	}
	if err := e.book.PutPool(p, e.now()); err != nil {
		e.stale = true
		return book.Fill{}, apierr.Internal(err)
	}
	fill, _ := e.book.FillOf(p.Name, e.now())
	return fill, nil
}

// DeletePool removes a retired pool. It returns errors of the API.
func (e *Engine) DeletePool(ctx context.Context, name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refresh(ctx); err != nil {
		return poolError(name, err)
	}
	if err := e.book.CheckDelete(name); err != nil {
		return err
	}
	if err := e.store.DeletePool(ctx, name); err != nil {
		e.stale = true
		return poolError(name, err)
	}
	e.book.RemovePool(name)
	return nil
}

// poolError converts an error of the store to an error of the API. After the checks of the book,
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

package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/pool"
)

// Errors of changes to pools.
var (
	ErrPoolExists   = errors.New("pool exists")
	ErrPoolNotFound = errors.New("pool not found")
	ErrPoolInUse    = errors.New("pool has values in use")
)

// Pool is a stored pool.
type Pool struct {
	Name  string
	Use   allocatorv1.Use
	Range string
	State allocatorv1.PoolState
	Band  uint64 // values of the lower band
}

// Owner is the object that a value belongs to. Only the UID identifies it. The other fields are for
// people and the verifier.
type Owner struct {
	UID, Kind, Namespace, Name string
}

// Claim is a slot of the owner that has the value.
type Claim struct {
	Slot      string
	Confirmed bool
	Since     time.Time
}

// Allocation is a value with its owner and claims. Times are kept to the millisecond.
type Allocation struct {
	Value    pool.Value
	Pool     string
	Owner    Owner
	Released time.Time // zero while in use
	Claims   []Claim   // empty while at rest
}

// Write is the new state of an allocation, with the owner that the value must have before the
// write.
type Write struct {
	Allocation
	// ExpectedOwner is the UID of the present owner. Empty means that the value is free or at rest.
	// If the value has another owner, the write fails.
	ExpectedOwner string
}

// ConflictError is returned if a value has another owner than the caller expected.
type ConflictError struct{ Value pool.Value }

// Error implements error.
func (e *ConflictError) Error() string { return fmt.Sprintf("%s has another owner", e.Value) }

// Query selects allocations after the position AfterPool and AfterValue, ordered by pool and value.
type Query struct {
	Pool       string // only this pool; empty: all
	AfterPool  string
	AfterValue pool.Value // the zero value: from the start of AfterPool
	Limit      int
}

// Store stores pools and allocations. Its methods may be called concurrently.
type Store interface {
	// Pools returns all pools, ordered by name.
	Pools(ctx context.Context) ([]Pool, error)
	// CreatePool adds a pool. It returns ErrPoolExists if the name is taken.
	CreatePool(ctx context.Context, p Pool) error
	// UpdatePool replaces a pool, or returns ErrPoolNotFound.
	UpdatePool(ctx context.Context, p Pool) error
	// DeletePool removes a pool and its values at rest. It returns ErrPoolNotFound, or ErrPoolInUse
	// if values are in use.
	DeletePool(ctx context.Context, name string) error
	// Load calls fn for every allocation, in any order.
	Load(ctx context.Context, fn func(Allocation) error) error
	// List returns at most Limit allocations that match the query.
	List(ctx context.Context, q Query) ([]Allocation, error)
	// Apply stores all of writes, or none. In the second case the error is a *ConflictError, or
	// means that the store cannot be reached. Each value is in at most one of them.
	Apply(ctx context.Context, puts []Write) error
	// DeleteExpired removes the values that have been at rest since before t.
	DeleteExpired(ctx context.Context, t time.Time) error
	// Close closes the store.
	Close() error
}

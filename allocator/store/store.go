package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	allocatorv1 "portolan.dev/proto/portolan/allocator/v1"

	"portolan.dev/allocator/pool"
)

// What can stand in the way of a change to the pools.
var (
	ErrPoolExists   = errors.New("pool exists")
	ErrPoolNotFound = errors.New("pool not found")
	ErrPoolInUse    = errors.New("pool has values in use")
)

// Pool is a range of values as it is stored.
type Pool struct {
	Name  string
	Use   allocatorv1.Use
	Range string
	State allocatorv1.PoolState
	Band  uint64 // values of the lower band
}

// Owner is the object that a value belongs to. Only UID counts; the rest is for
// people and the verifier.
type Owner struct {
	UID, Kind, Namespace, Name string
}

// Claim says that a slot of the owner has the value.
type Claim struct {
	Slot      string
	Confirmed bool
	Since     time.Time
}

// Holding is a value and who has it. Times are kept to the millisecond.
type Holding struct {
	Value    pool.Value
	Pool     string
	Owner    Owner
	Released time.Time // zero while in use
	Claims   []Claim   // none while at rest
}

// Put is a holding as it is to be from now on, and who is to have its value until then.
type Put struct {
	Holding
	// From is the UID of the owner that has the value; empty: it is free, or at rest. Nobody else may have it.
	From string
}

// ConflictError says that somebody else has a value than was believed.
type ConflictError struct{ Value pool.Value }

// Error implements error.
func (e *ConflictError) Error() string { return fmt.Sprintf("%s has another owner", e.Value) }

// Query says which holdings are wanted: those after the place that Pool and
// Value name, in the order of pools and values.
type Query struct {
	Pool       string // only this pool; empty: all
	AfterPool  string
	AfterValue pool.Value // the zero value: from the start of AfterPool
	Limit      int
}

// Store keeps pools and holdings. Its methods may be called concurrently.
type Store interface {
	// Pools returns all pools, ordered by name.
	Pools(ctx context.Context) ([]Pool, error)
	// CreatePool adds a pool, or returns ErrPoolExists when there is one of the name.
	CreatePool(ctx context.Context, p Pool) error
	// UpdatePool replaces a pool, or returns ErrPoolNotFound.
	UpdatePool(ctx context.Context, p Pool) error
	// DeletePool removes a pool and what rests in it, or returns ErrPoolNotFound or ErrPoolInUse.
	DeletePool(ctx context.Context, name string) error
	// Load calls fn for every holding, in any order.
	Load(ctx context.Context, fn func(Holding) error) error
	// List returns holdings by query, at most Limit.
	List(ctx context.Context, q Query) ([]Holding, error)
	// Apply makes all of puts come true, or none: then the error is a *ConflictError or says that the store is not to be
	// reached. Each value is in at most one of them.
	Apply(ctx context.Context, puts []Put) error
	// Forget removes what has been at rest since before t.
	Forget(ctx context.Context, t time.Time) error
	// Close ends the use of the store.
	Close() error
}

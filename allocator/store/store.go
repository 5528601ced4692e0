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

// Verb says what an operation does.
type Verb uint8

const (
	// Take makes Value, of Pool, the Owner's. It conflicts when another owner has it, and changes nothing when this one has.
	Take Verb = iota + 1
	// Hold makes Slot of Owner have Value, unconfirmed, since Time; it renews Time where the claim is held already.
	Hold
	// Confirm makes the claim of Slot of Owner on Value permanent.
	Confirm
	// Drop ends the claim of Slot of Owner on Value.
	Drop
	// Rest ends the use of Value by Owner at Time.
	Rest
	// Forget removes what has been at rest since before Time.
	Forget
)

// Op is one change. Which fields count, its verb says.
type Op struct {
	Verb  Verb
	Value pool.Value
	Pool  string
	Owner Owner
	Slot  string
	Time  time.Time
}

// ConflictError says that somebody else has a value that was to be taken.
type ConflictError struct{ Value pool.Value }

// Error implements error.
func (e *ConflictError) Error() string { return fmt.Sprintf("%s has another owner", e.Value) }

// Query says which holdings are wanted: those after the place that Pool and
// Value name, in the order of pools and values.
type Query struct {
	Pool       string // only this pool; empty: all
	OwnerUID   string // only this owner; empty: all
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
	// Apply makes all of ops come true in their order, or none: then the error is a *ConflictError or says that the
	// store is not to be reached.
	Apply(ctx context.Context, ops []Op) error
	// Close ends the use of the store.
	Close() error
}

package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/pool"
)

// Errors of a [Store]. Any other error means that the store is not available. If Transact returns it, the
// batch may have been stored.
var (
	// ErrOutdated means that the changes since a position are not known any more. The caller reads
	// a snapshot.
	ErrOutdated = errors.New("the changes since then are not known any more")
	// ErrWentBack means that the store does not have the position: it was restored from an older copy, or
	// filled anew. Batches that were stored since that copy are lost, so the caller reads a snapshot, and
	// allocates nothing before it knows again which values are in use.
	ErrWentBack = errors.New("the store was replaced by another state")
	// ErrNotStored means that nothing was stored, and that the caller may try again at once.
	ErrNotStored = errors.New("nothing was stored")
	// ErrPoolInUse means that a pool is not to be removed: it does not exist, or has values in use.
	ErrPoolInUse = errors.New("pool does not exist or has values in use")
	// ErrUnavailable is wrapped by errors of a database that cannot be reached at present.
	ErrUnavailable = errors.New("store is not available")
	// ErrUnusable is wrapped by errors that waiting does not cure: the database denies access, or its
	// schema does not fit.
	ErrUnusable = errors.New("store cannot be used")
)

// KindReserve is the kind of the owner of a value that is in a reserve. The owner's UID and name are
// the holder.
const KindReserve = "Reserve"

// Pool is a stored pool.
type Pool struct {
	Name  string
	Use   allocatorv1.Use
	Range string
	State allocatorv1.PoolState
	Band  uint64 // values of the lower band, of each protocol if the pool is per protocol
	// PerProtocol is whether each port has one value for each protocol.
	PerProtocol bool
	// AvoidBuggyIPs is whether IPv4 addresses that end in .0 or .255 are left to explicit requests.
	AvoidBuggyIPs bool
}

// Space returns the pool's range.
func (p *Pool) Space() (pool.Space, error) {
	space, err := pool.Parse(p.Range)
	if p.PerProtocol {
		space = space.PerProtocol()
	}
	if p.AvoidBuggyIPs {
		space = space.AvoidingBuggyIPs()
	}
	return space, err
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

// Reserve is a reserve of a registry process: values that the process has at hand before a service
// asks for them. Each value is an allocation, and its owner is the holder.
type Reserve struct {
	Holder  string    // name of the Lease in the registry that fences the use of the values
	Grant   uint64    // number of the newest grant
	Renewed time.Time // time of the last call of the holder, up to a third of the lease too early
}

// ReserveWrite is the new state of a reserve.
type ReserveWrite struct {
	Reserve
	// Removed removes the reserve. It is no error if the reserve does not exist.
	Removed bool
}

// PoolWrite is the new state of a pool.
type PoolWrite struct {
	Pool
	// Removed removes the pool and its values at rest. None of its values may be in use.
	Removed bool
}

// Batch is a set of changes that are stored together or not at all.
type Batch struct {
	// Writes has each value at most once.
	Writes []Write
	// Reserves has each holder at most once.
	Reserves []ReserveWrite
	// Pools has each name at most once. Pools are stored before Writes.
	Pools []PoolWrite
}

// Empty reports whether a batch writes nothing.
func (b Batch) Empty() bool { return len(b.Writes) == 0 && len(b.Reserves) == 0 && len(b.Pools) == 0 }

// Position identifies a state of the store. Each stored batch leads to another one. The zero
// Position belongs to no state.
type Position struct {
	Version uint64 // number of the batch that led to the state
	// Mark is random. It distinguishes two states with one version: after an older copy of the store is
	// restored, versions are used again.
	Mark int64
}

// News holds the pools, allocations and reserves that other processes have changed after a position. It
// has their present state, not the steps in between.
type News struct {
	// Position is the position of the present state.
	Position Position
	// PoolsChanged reports whether a pool was added, changed or removed. Pools then has all pools,
	// ordered by name.
	PoolsChanged bool
	Pools        []Pool
	// Allocations has the values that were written, in any order.
	Allocations []Allocation
	// Free has the values that were written and are in no allocation any more.
	Free []pool.Value
	// Reserves has the reserves that were written or removed.
	Reserves []ReserveWrite
}

// Snapshot is everything that is stored at one position.
type Snapshot struct {
	Position Position
	Pools    []Pool    // ordered by name
	Reserves []Reserve // ordered by holder
	// Allocations yields all allocations, in any order, and ends with the first error. It can be
	// used once, and only while the snapshot is read.
	Allocations iter.Seq2[Allocation, error]
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

// Store stores pools, allocations and reserves. Its methods may be called concurrently, and by
// several processes if the store can be shared.
type Store interface {
	// Snapshot calls read with everything that is stored, and returns its error. read must not call
	// the store.
	Snapshot(ctx context.Context, read func(Snapshot) error) error
	// News returns the changes after a position. Errors: ErrOutdated, ErrWentBack.
	News(ctx context.Context, seen Position) (News, error)
	// Transact runs decide while no other batch can be stored, and stores the batch that decide
	// returns. decide gets the news since the position seen, so that it decides from the present
	// state. It is called once at most, and must not call the store. If it returns an error or an
	// empty batch, nothing is stored.
	//
	// Transact returns the position after the batch. Errors: the error of decide; ErrOutdated and
	// ErrWentBack, for which decide is not called; ErrNotStored; ErrPoolInUse; a *ConflictError.
	Transact(ctx context.Context, seen Position, decide func(News) (Batch, error)) (Position, error)
	// List returns at most Limit allocations that match the query.
	List(ctx context.Context, q Query) ([]Allocation, error)
	// DeleteExpired removes the values that have been at rest since before t. Removed values are not in
	// the news, because every process knows from the time that they are free.
	DeleteExpired(ctx context.Context, t time.Time) error
	// Restore replaces everything that is stored by the content of a snapshot, without its position
	// and its reserves. It returns ErrOutdated if the store is not at the position seen, so that
	// nothing is overwritten that the caller does not know of. Other processes then get ErrWentBack.
	Restore(ctx context.Context, seen Position, content Snapshot) error
	// Close closes the store.
	Close() error
}

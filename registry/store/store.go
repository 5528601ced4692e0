package store

import (
	"context"
	"iter"
	"time"

	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/object"
)

// Store keeps objects and the log of their changes. All methods may be called concurrently.
type Store interface {
	// Submit commits one write, together with those that are submitted meanwhile. Errors: [ErrExists], [ErrNotFound], [*Conflict], [*Fenced];
	// [ErrUnavailable], [ErrClosed] or the error of ctx when it did not happen for reasons not its own; [ErrUnknown] when nobody can tell.
	Submit(ctx context.Context, op Op) (Result, error)

	// Snapshot calls read with all rows as they are at head.Revision, ordered by key. The rows are to be used inside read only; read may stop early.
	// Row.Data is the reader's to keep.
	Snapshot(ctx context.Context, read func(head Head, rows iter.Seq2[Row, error]) error) error

	// Changes returns up to limit records with revisions after+1, after+2, … and the head as it was in the same instant. Where after lies before
	// Head.Oldest the error is [*Pruned]; where it lies at or beyond the newest revision there are none.
	Changes(ctx context.Context, after uint64, limit int) ([]Record, Head, error)

	// Tail returns up to limit records that follow a revision as far as this process has just committed them, and the head as it was then; none where
	// it does not know: then Changes does, also what others committed meanwhile. It asks nobody. epoch must be that of the log; empty: any.
	Tail(epoch string, after uint64, limit int) ([]Record, Head)

	// Head returns how far the log goes.
	Head(ctx context.Context) (Head, error)

	// Wake returns a channel that is closed when the head may have moved since the call. Take it first, then read, then wait for it.
	Wake() <-chan struct{}

	// Prune forgets the records up to and with a revision, and returns how many those were. Objects stay.
	Prune(ctx context.Context, through uint64) (int64, error)

	// NewEpoch gives the log another epoch: revisions may from now on mean other changes than those that followers have seen.
	NewEpoch(ctx context.Context) (Head, error)

	// Restore replaces all objects by rows, each with its revision, in one transaction, if the newest revision still is at; otherwise the error is
	// [*Conflict]. Afterwards the log is empty, its epoch new, and its newest revision the greater of at and revision, which no row may exceed.
	Restore(ctx context.Context, at, revision uint64, rows iter.Seq2[Row, error]) error

	// Lock runs fn while no other caller, of any process on this store, is inside Lock of the same name. The context of fn ends when the lock is lost.
	Lock(ctx context.Context, name string, fn func(context.Context) error) error

	// Close ends the store. Writes that wait are refused with [ErrClosed]; one batch in mid-commit is waited for.
	Close() error
}

// Action is what a write does.
type Action uint8

const (
	// Create stores an object that must not exist.
	Create Action = iota + 1
	// Update replaces an object that must exist, as the incarnation UID.
	Update
	// Delete removes an object that must exist.
	Delete
)

// String returns "create", "update" or "delete".
func (a Action) String() string {
	switch a {
	case Create:
		return "create"
	case Update:
		return "update"
	case Delete:
		return "delete"
	}
	return "no action"
}

// Op is one write.
type Op struct {
	Action Action
	Key    object.Key
	// UID is the object's identity: required for Create and Update; for Delete a precondition, unless empty.
	UID string
	// Revision is the revision that Update or Delete is based on; 0: whatever there is.
	Revision uint64
	// Data is the object as [Encode] makes it. Not to be changed afterwards. For Delete, which must then name UID and Revision, it is the object as it
	// is stored in that revision, for those who follow; or empty: then the store looks.
	Data []byte
	// Epoch is the fencing epoch that the row shall carry: that of a Lease, else 0.
	Epoch uint64
	// Fence, if not nil, must hold for the write to happen.
	Fence *Fence
	// Traceparent is the W3C traceparent of the request; may be empty.
	Traceparent string
}

// Fence ties a write to a lease: it holds while the row exists with exactly this epoch.
type Fence struct {
	Lease object.Key
	Epoch uint64
}

// Result is what a write that happened has to say.
type Result struct {
	// Revision of the change: from now on the object's resource_version.
	Revision uint64
}

// Row is an object as it is stored.
type Row struct {
	Key      object.Key
	UID      string
	Revision uint64
	Epoch    uint64
	Data     []byte
}

// Record is one change.
type Record struct {
	Revision uint64
	Type     registryv1.ChangeType
	Key      object.Key
	UID      string
	// Data is the object after the change; for a deletion, as it last was.
	Data        []byte
	Time        time.Time
	Traceparent string

	decoded *decoded // shared by the copies of a record that several follow; nil: nobody else has it
}

// Head says how far the log goes.
type Head struct {
	// Epoch is the incarnation of the log.
	Epoch string
	// Revision is the newest one; 0: nothing was ever written.
	Revision uint64
	// Oldest is the revision after which Changes can start: records up to it are pruned.
	Oldest uint64
}

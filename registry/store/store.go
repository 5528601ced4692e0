package store

import (
	"context"
	"iter"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/object"
)

// Store keeps objects and the log of their changes. All methods may be called concurrently.
type Store interface {
	// Submit commits one write, together with other writes that are submitted in the meantime. It
	// returns [ErrExists], [ErrNotFound], [*ConflictError], [*Fenced], [*EpochError] or [*QuotaError] if the write is
	// refused; [ErrUnavailable], [ErrClosed] or the error of ctx if the write was not stored for another
	// reason; and [ErrUnknown] if the outcome cannot be determined.
	Submit(ctx context.Context, op Op) (Result, error)

	// SubmitMany commits several writes, in their order, each with its own outcome: one that is
	// refused does not affect the others. They share one commit, unless there are more than 1000, or
	// their objects have more than 8 MiB, together with the writes that waited before them. The
	// errors are the same as of Submit.
	SubmitMany(ctx context.Context, ops []Op) []batch.Outcome[Result]

	// Snapshot calls read with all rows as they are at head.Revision, ordered by key. The rows may
	// be used only inside read, which may stop early. The reader may keep Row.Data.
	Snapshot(ctx context.Context, read func(head Head, rows iter.Seq2[Row, error]) error) error

	// Changes returns up to limit records with revisions after+1, after+2, … and the head as it was
	// in the same instant. If after is less than Head.Oldest, the error is [*Pruned]. If after is
	// the newest revision or a later one, there are no records.
	Changes(ctx context.Context, after uint64, limit int) ([]Record, Head, error)

	// Tail returns up to limit of the records after a revision, from those that this process has
	// just committed, and the head as of the last of these commits. It never reads the database. If
	// it returns no records, use Changes, which also returns the records of other processes. epoch
	// must be the epoch of the log; the empty epoch matches any.
	Tail(epoch string, after uint64, limit int) ([]Record, Head)

	// Head returns the present extent of the log.
	Head(ctx context.Context) (Head, error)

	// Wake returns a channel that is closed when the head may have moved since the call. Call Wake
	// first, then read, then wait for the channel, so that no change is missed.
	Wake() <-chan struct{}

	// LogSize returns the size of the objects in the log in bytes, and the revision through which
	// the log has to be pruned so that at most keep bytes remain, or 0. It reads the whole log.
	LogSize(ctx context.Context, keep int64) (size int64, through uint64, err error)

	// Prune deletes the records up to and including a revision, and returns their number. Objects
	// stay.
	Prune(ctx context.Context, through uint64) (int64, error)

	// NewEpoch gives the log another epoch: from now on a revision may stand for another change
	// than before.
	NewEpoch(ctx context.Context) (Head, error)

	// Restore replaces all objects by rows, each with its revision, in one transaction, if the
	// newest revision still is at; otherwise the error is [*ConflictError]. Afterwards the log is empty,
	// its epoch is new, and its newest revision is the greater of at and revision. The revision of
	// a row must not exceed it.
	Restore(ctx context.Context, at, revision uint64, rows iter.Seq2[Row, error]) error

	// Installation returns the identity of the installation that the store belongs to. It is made when
	// the store is opened for the first time. NewEpoch and Restore do not change it.
	Installation(ctx context.Context) (string, error)

	// SetInstallation replaces the identity of the installation.
	SetInstallation(ctx context.Context, id string) error

	// Lock runs fn under the lock of the given name, which one caller at a time holds among all
	// processes on this store. The context of fn ends when the lock is lost.
	Lock(ctx context.Context, name string, fn func(context.Context) error) error

	// Close closes the store. Waiting writes fail with [ErrClosed]. Close waits for a batch that is
	// being committed.
	Close() error
}

// Action is the kind of a write.
type Action uint8

const (
	// Create stores an object that must not exist.
	Create Action = iota + 1
	// Update replaces an object that must exist with the given UID.
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
	// UID is the object's identity. It is required for Create and Update. For Delete it is a
	// precondition unless it is empty.
	UID string
	// Revision is the revision that an Update or Delete is based on. 0 matches any revision.
	Revision uint64
	// Data is the object as [Encode] returns it. It must not be changed afterwards. For Delete it
	// is either empty, and the store then reads the object itself, or the object as stored in that
	// revision, for followers of the log; UID and Revision are then required.
	Data []byte
	// Object, if not nil, is the object that Data encodes, of a Create or Update. If the write is
	// committed, the store sets its resource_version and hands it to followers of the log, so it must
	// not be changed after it was submitted.
	Object object.Object
	// Epoch is the fencing epoch that the row shall carry: the epoch of a Lease, 0 for other kinds.
	Epoch uint64
	// Fence, if not nil, must hold for the write to be stored.
	Fence *Fence
	// LogEpoch, if not empty, is the epoch that the log must have for the write to be stored.
	// Otherwise the write fails with an [*EpochError].
	LogEpoch string
	// Traceparent is the W3C traceparent of the request. It may be empty.
	Traceparent string
	// Charges are the amounts that the write adds to limited accounts, compared with the version that
	// it replaces. Revision is therefore required with Charges, unless the object is new. The write
	// fails with a [*QuotaError] if an account would exceed its limit.
	Charges []Charge
}

// Fence ties a write to a lease. It holds while the row exists with exactly this epoch.
type Fence struct {
	Lease object.Key
	Epoch uint64
}

// Result is the result of a successful write.
type Result struct {
	// Revision is the revision of the change, which is the object's new resource_version.
	Revision uint64
}

// Row is a stored object.
type Row struct {
	Key      object.Key
	UID      string
	Revision uint64
	Epoch    uint64
	Data     []byte
}

// Record is one change in the log.
type Record struct {
	Revision uint64
	Type     registryv1.ChangeType
	Key      object.Key
	UID      string
	// Data is the object after the change, or before it if the change is a deletion.
	Data        []byte
	Time        time.Time
	Traceparent string

	// decoded is shared by the copies of a record that several followers read. If it is nil, the
	// record is not shared.
	decoded *decoded
}

// Head is the extent of the log.
type Head struct {
	// Epoch is the incarnation of the log.
	Epoch string
	// Revision is the newest revision. 0 means that no change was ever written.
	Revision uint64
	// Oldest is the revision after which Changes can start. Records up to it are pruned.
	Oldest uint64
}

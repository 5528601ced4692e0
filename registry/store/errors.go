package store

import (
	"errors"
	"fmt"

	"portolan.dev/services/object"
)

// Why a write, or a read, did not do what was asked.
var (
	// ErrExists: Create of a key that is taken.
	ErrExists = errors.New("object already exists")
	// ErrNotFound: Update or Delete of a key that is not there.
	ErrNotFound = errors.New("object not found")
	// ErrUnavailable: the database cannot be reached or does not answer; a write has not happened.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUnusable: the database is there, or would be, but not for this configuration; waiting does not help.
	ErrUnusable = errors.New("store cannot be used")
	// ErrUnknown: the database went away in the middle of a commit; the write is there as a whole or not at all, and nobody can tell which.
	ErrUnknown = errors.New("outcome of the write unknown")
	// ErrClosed: the store was closed; a write has not happened.
	ErrClosed = errors.New("store closed")
)

// Conflict says that an object is not what the write was based on.
type Conflict struct {
	// Have is the object's revision and HaveUID its identity.
	Have    uint64
	HaveUID string
}

// Error returns what is there.
func (c *Conflict) Error() string {
	return fmt.Sprintf("conflict: the present revision is %d", c.Have)
}

// Fenced says that the writer is no longer (or not yet) the holder it takes itself for.
type Fenced struct {
	Fence Fence
	// Have is the epoch of the lease; 0: there is no such lease.
	Have uint64
}

// Error returns both epochs.
func (f *Fenced) Error() string {
	return fmt.Sprintf("fenced: %s is at epoch %d, not %d", f.Fence.Lease, f.Have, f.Fence.Epoch)
}

// Pruned says that a part of the log is no longer kept.
type Pruned struct {
	// Oldest is the revision after which the log can be read.
	Oldest uint64
}

// Error returns where the log begins.
func (p *Pruned) Error() string {
	return fmt.Sprintf("changes up to revision %d are no longer kept", p.Oldest)
}

// InvalidOp says that a write makes no sense; a fault of the caller.
type InvalidOp struct {
	Action Action
	Key    object.Key
	Why    string
}

// Error returns what is wrong with it.
func (i *InvalidOp) Error() string {
	return fmt.Sprintf("invalid %s of %s: %s", i.Action, i.Key, i.Why)
}

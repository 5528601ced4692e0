package store

import (
	"errors"
	"fmt"

	"portolan.dev/services/object"
)

// Errors of reads and writes.
var (
	// ErrExists is returned by a Create if the key exists.
	ErrExists = errors.New("object already exists")
	// ErrNotFound is returned by an Update or Delete if the key does not exist.
	ErrNotFound = errors.New("object not found")
	// ErrUnavailable means that the database cannot be reached or does not answer. A write was not
	// stored.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUnusable means that the database cannot be used with this configuration, so waiting does
	// not help.
	ErrUnusable = errors.New("store cannot be used")
	// ErrUnknown means that the connection to the database was lost in the middle of a commit. The
	// write is stored as a whole or not at all, and which of the two cannot be determined.
	ErrUnknown = errors.New("outcome of the write unknown")
	// ErrClosed means that the store is closed. A write was not stored.
	ErrClosed = errors.New("store closed")
)

// ConflictError is the error of a write that was based on another version of the object than the stored
// one.
type ConflictError struct {
	// Have is the object's revision and HaveUID its identity.
	Have    uint64
	HaveUID string
}

// Error returns a message with the present revision.
func (c *ConflictError) Error() string {
	return fmt.Sprintf("conflict: the present revision is %d", c.Have)
}

// Fenced is the error of a write with a fence that does not hold: the writer does not hold the lease, or
// no longer.
type Fenced struct {
	Fence Fence
	// Have is the epoch of the lease. 0 means that the lease does not exist.
	Have uint64
}

// Error returns a message with both epochs.
func (f *Fenced) Error() string {
	return fmt.Sprintf("fenced: %s is at epoch %d, not %d", f.Fence.Lease, f.Have, f.Fence.Epoch)
}

// EpochError is the error of a write that may be stored only in a log of another epoch.
type EpochError struct {
	// Want is the epoch that the write names, and Have is the epoch of the log.
	Want, Have string
}

// Error returns a message with both epochs.
func (e *EpochError) Error() string {
	return fmt.Sprintf("the log has epoch %s, and the write is for epoch %s", e.Have, e.Want)
}

// Pruned is the error of a read that begins before the oldest record that is kept.
type Pruned struct {
	// Oldest is the revision after which the log can be read.
	Oldest uint64
}

// Error returns a message with the revision at which the log begins.
func (p *Pruned) Error() string {
	return fmt.Sprintf("changes up to revision %d are no longer kept", p.Oldest)
}

// InvalidOp is the error of an operation that is malformed, which is a fault of the caller.
type InvalidOp struct {
	Action Action
	Key    object.Key
	Why    string
}

// Error returns a message with the reason.
func (i *InvalidOp) Error() string {
	return fmt.Sprintf("invalid %s of %s: %s", i.Action, i.Key, i.Why)
}

package store

import (
	"context"
	"errors"
	"time"

	"portolan.dev/services/kit/batch"
)

// Limits of a batch. A batch of more than 256 operations is hardly any faster. 8 MiB keeps a
// statement and its answer far below every limit of the databases.
const (
	maxBatchOps   = 256
	maxBatchBytes = 8 << 20
)

// Commit executes operations in one transaction, in order, and returns one outcome for each. It is
// never called concurrently.
type Commit func(ctx context.Context, ops []Op) []batch.Outcome[Result]

// Committer folds concurrent writes into batches. Both stores use it.
type Committer struct {
	group *batch.Group[Op, Result]
}

// CommitterOptions are the options of a [Committer].
type CommitterOptions struct {
	// Timeout is how long a batch may take. If the connection is lost in mid-commit, looking up the
	// outcome may take a few seconds more. Default: 10s.
	Timeout time.Duration
	// Observe, if not nil, is called after each batch.
	Observe func(ops int, took time.Duration)
}

// NewCommitter returns a committer that passes its batches to commit.
func NewCommitter(options CommitterOptions, commit Commit) *Committer {
	return &Committer{group: batch.New(batch.Options[Op]{
		MaxItems: maxBatchOps, MaxBytes: maxBatchBytes, Size: size, Timeout: options.Timeout, Observe: options.Observe,
	}, commit)}
}

// Submit implements Submit of [Store].
func (c *Committer) Submit(ctx context.Context, op Op) (Result, error) {
	if err := op.Check(); err != nil {
		return Result{}, err
	}
	result, err := c.group.Do(ctx, op)
	if errors.Is(err, batch.ErrClosed) {
		err = ErrClosed
	}
	return result, err
}

// Close refuses the waiting writes and waits for the running batch.
func (c *Committer) Close() { c.group.Close() }

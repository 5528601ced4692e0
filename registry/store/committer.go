package store

import (
	"context"
	"errors"
	"time"

	"portolan.dev/services/kit/batch"
)

// Bounds of a batch. 256 is where a larger one no longer gains much; 8 MiB keeps a statement and its answer far from any limit.
const (
	maxBatchOps   = 256
	maxBatchBytes = 8 << 20
)

// Commit carries out operations in one transaction, in order, and returns one outcome for each. It is never called twice at once.
type Commit func(ctx context.Context, ops []Op) []batch.Outcome[Result]

// Committer is the front of both stores: it folds concurrent writes into batches.
type Committer struct {
	group *batch.Group[Op, Result]
}

// CommitterOptions are what the operator of a store may want to set.
type CommitterOptions struct {
	// Timeout is how long a batch may take; asking what became of a commit that was cut off may take a few seconds more. Default: 10s.
	Timeout time.Duration
	// Observe, if not nil, is called after each batch.
	Observe func(ops int, took time.Duration)
}

// NewCommitter returns a committer that hands its batches to commit.
func NewCommitter(options CommitterOptions, commit Commit) *Committer {
	return &Committer{group: batch.New(batch.Options[Op]{
		MaxItems: maxBatchOps, MaxBytes: maxBatchBytes, Size: size, Timeout: options.Timeout, Observe: options.Observe,
	}, commit)}
}

// Submit is the Submit of [Store].
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

// Close refuses what waits and waits for what runs.
func (c *Committer) Close() { c.group.Close() }

package store

import (
	"context"
	"errors"
	"time"

	"portolan.dev/services/kit/batch"
)

// Limits of a batch. Concurrent single writes hardly gain from more than 256 operations in a batch.
// 1000 are as many as a call of BulkService has, so that it is one commit. 8 MiB keeps a statement
// and its answer far below every limit of the databases.
const (
	maxBatchOps   = 1000
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
	// Usage, if not nil, decides on writes with charges. Without it there are no limits.
	Usage UsageFunc
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
	return result, errorOf(err)
}

// SubmitMany implements SubmitMany of [Store].
func (c *Committer) SubmitMany(ctx context.Context, ops []Op) []batch.Outcome[Result] {
	outcomes := make([]batch.Outcome[Result], len(ops))
	valid, places := make([]Op, 0, len(ops)), make([]int, 0, len(ops))
	for i, op := range ops {
		if err := op.Check(); err != nil {
			outcomes[i].Err = err
			continue
		}
		valid, places = append(valid, op), append(places, i)
	}
	for n, outcome := range c.group.DoMany(ctx, valid) {
		outcome.Err = errorOf(outcome.Err)
		outcomes[places[n]] = outcome
	}
	return outcomes
}

// errorOf converts an error of the group.
func errorOf(err error) error {
	if errors.Is(err, batch.ErrClosed) {
		return ErrClosed
	}
	return err
}

// Close refuses the waiting writes and waits for the running batch.
func (c *Committer) Close() { c.group.Close() }

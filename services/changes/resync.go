package changes

import (
	"context"
	"errors"
	"time"
)

// comparisonRequest is a call of Check or Resync.
type comparisonRequest struct {
	all    bool // compare all objects, not only the changes from NATS
	result chan<- comparisonResult
}

type comparisonResult struct {
	corrected int
	err       error
}

// Check compares the changes that the follower took from NATS since the last comparison with the
// registry's log. If they differ, the view is repaired before Check returns. Check returns an error if
// they cannot be compared, for example because no registry answers.
func (f *Follower) Check(ctx context.Context) error {
	_, err := f.request(ctx, false)
	return err
}

// Resync compares all objects of the view with a snapshot of the registry, and passes the difference
// to Apply before it returns. It returns the number of objects in which the view was wrong. Changes that
// were still under way do not count. It returns an error if they cannot be compared. With VersionsOnly,
// all objects count as wrong after a forged change.
func (f *Follower) Resync(ctx context.Context) (corrected int, err error) {
	return f.request(ctx, true)
}

func (f *Follower) request(ctx context.Context, all bool) (int, error) {
	result := make(chan comparisonResult, 1)
	select {
	case f.comparisons <- comparisonRequest{all: all, result: result}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case got := <-result:
		return got.corrected, got.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// answer answers a call of Check or Resync. It returns only errors of Apply.
func (f *Follower) answer(ctx context.Context, request comparisonRequest) error {
	corrected, err := f.compare(ctx, request.all)
	request.result <- comparisonResult{corrected: corrected, err: err}
	if refused, ok := errors.AsType[*applyError](err); ok {
		return refused.err
	}
	return nil
}

// compare compares the view with the registry and returns the number of objects that differed.
func (f *Follower) compare(ctx context.Context, all bool) (corrected int, err error) {
	if !f.synced.Load() {
		return 0, errNoSnapshot
	}
	f.corrected = 0
	if err := f.compareRange(ctx); err != nil || f.corrected > 0 || !all {
		return f.corrected, err
	}
	if err := f.compareObjects(ctx); err != nil {
		return 0, err
	}
	return f.corrected, nil
}

// compareObjects makes the view equal to a snapshot. Before, it brings the view to the snapshot's
// revision by the log, so that they differ only in objects that were wrong.
func (f *Follower) compareObjects(ctx context.Context) error {
	err := f.readLog(ctx, 0)
	if errors.Is(err, errSnapshotNeeded) {
		return f.takeSnapshot(ctx)
	}
	if err != nil {
		return err
	}
	asked := time.Now()
	snap, err := f.readSnapshot(ctx, f.revision)
	if err != nil {
		return err
	}
	for snap.epoch == f.epoch && f.revision < snap.revision {
		answer, err := f.listChanges(ctx, int32(min(snap.revision-f.revision, healBatch))) // at most healBatch
		if err != nil {
			return err
		}
		if len(answer.GetChanges()) == 0 {
			return &shortLog{view: f.revision, head: answer.GetHeadRevision(), wanted: snap.revision}
		}
		if err := f.applyListed(ctx, answer.GetChanges()); err != nil {
			return err
		}
	}
	return f.adopt(ctx, snap, asked, byRequest)
}

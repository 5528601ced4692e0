package changes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

const (
	// healBatch is the number of changes per request. Answers are small so that a registry with a
	// thousand followers stays responsive.
	healBatch = 128
	retryMin  = 50 * time.Millisecond
	// toleratedOutage is the length of an outage that is not logged. Daemons that start together
	// wait for one another for about this long.
	toleratedOutage = time.Second
)

// errSnapshotNeeded is returned if the log does not continue the view, because the log has another
// epoch or was pruned.
var errSnapshotNeeded = errors.New("the log does not continue the view")

// applyError marks an error of Apply. Errors of the registry are retried, errors of Apply are not.
type applyError struct{ err error }

func (e *applyError) Error() string { return e.err.Error() }
func (e *applyError) Unwrap() error { return e.err }

// ask requests the log up to its head, or a snapshot.
func (f *Follower) ask(ctx context.Context, what need) error { return f.askUpTo(ctx, what, 0) }

// askUpTo requests the log up to revision upTo at least, and then a snapshot if the log does not
// continue the view. It returns only errors of Apply. Errors of the registry are recorded, and the
// request is repeated later.
func (f *Follower) askUpTo(ctx context.Context, what need, upTo uint64) error {
	var err error
	if what == theLog {
		err = f.readLog(ctx, upTo)
	}
	if what == aSnapshot || errors.Is(err, errSnapshotNeeded) {
		if what = aSnapshot; f.synced.Load() && f.need != aSnapshot {
			f.need = aSnapshot
			app.Pause(ctx, rand.N(f.cfg.Jitter))
		}
		err = f.applySnapshot(ctx)
	}
	var refused *applyError
	if errors.As(err, &refused) {
		return refused.err
	}
	f.recordResult(ctx, what, err)
	return nil
}

// recordResult records the result of a request and sets the time of the next one.
func (f *Follower) recordResult(ctx context.Context, what need, err error) {
	now := time.Now()
	if err == nil {
		f.outage.Over("revision", f.revision)
		f.need, f.failures = nothing, 0
		f.nextRequestAt = now.Add(f.cfg.BookmarkEvery*3/4 + rand.N(f.cfg.BookmarkEvery/2))
		return
	}
	if ctx.Err() != nil {
		return
	}
	f.outage.Failed(err, "revision", f.revision)
	f.need = what
	pause := min(retryMin<<min(f.failures, 10), f.cfg.RetryMax)
	f.nextRequestAt = now.Add(pause/2 + rand.N(pause))
	f.failures++
}

// readLog applies the registry's log after the view, up to the log's head and at least up to
// revision upTo.
func (f *Follower) readLog(ctx context.Context, upTo uint64) error {
	for {
		asked := time.Now()
		answer, err := f.listChanges(ctx)
		if err != nil {
			return err
		}
		for _, change := range answer.GetChanges() {
			if want := f.revision + 1; change.GetRevision() != want {
				return fmt.Errorf("the registry's log has revision %d where %d is due", change.GetRevision(), want)
			}
			f.applyChange(change)
			f.metrics.healed.Inc()
		}
		if len(f.pending) > 0 {
			if err := f.callApply(ctx); err != nil {
				return &applyError{err}
			}
		}
		head := answer.GetHeadRevision()
		if f.revision == head {
			f.markComplete(asked)
		}
		switch {
		case f.revision >= upTo && f.revision >= head:
			return nil
		case len(answer.GetChanges()) == 0:
			return fmt.Errorf("the registry's log ends at %d, %d is known to exist", f.revision, max(upTo, head))
		}
	}
}

func (f *Follower) listChanges(ctx context.Context) (*registryv1.ListChangesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.CallTimeout)
	defer cancel()
	answer, err := f.registry.ListChanges(ctx, &registryv1.ListChangesRequest{
		AfterRevision: f.revision, Limit: healBatch, Epoch: f.epoch,
	})
	switch code := status.Code(err); {
	case code == codes.OutOfRange || code == codes.FailedPrecondition:
		return nil, fmt.Errorf("%w: %w", errSnapshotNeeded, err)
	case err != nil:
		return nil, err
	case answer.GetEpoch() != f.epoch:
		return nil, errSnapshotNeeded
	}
	return answer, nil
}

// applySnapshot reads a snapshot and passes its difference to the view to Apply. It uses nothing of
// a snapshot before the snapshot is complete.
func (f *Follower) applySnapshot(ctx context.Context) error {
	asked := time.Now()
	snap, err := f.readSnapshot(ctx)
	if err != nil {
		return err
	}
	if snap.epoch == f.epoch && snap.revision < f.revision {
		return fmt.Errorf("snapshot is at revision %d, the view already at %d", snap.revision, f.revision)
	}
	f.metrics.snapshots.WithLabelValues(f.reasonFor(snap)).Inc()
	sameEpoch := f.epoch == snap.epoch
	f.epoch, f.expected = snap.epoch, expectedHead{}
	f.pending = append(f.pending, f.view.replace(snap.objects, snap.revision, sameEpoch)...)
	f.setRevision(snap.revision)
	if err := f.callApply(ctx); err != nil {
		return &applyError{err}
	}
	f.lastBookmark = time.Now()
	f.markComplete(asked)
	if f.synced.CompareAndSwap(false, true) {
		f.cfg.Log.Info("first snapshot applied", "revision", snap.revision, "objects", len(snap.objects))
	}
	f.reportHealth()
	return nil
}

// reasonFor returns the reason for which the snapshot was needed.
func (f *Follower) reasonFor(snap snapshot) string {
	switch {
	case !f.synced.Load():
		return atStart
	case snap.epoch != f.epoch:
		return afterEpoch
	}
	return afterPrune
}

type snapshot struct {
	epoch    string
	revision uint64
	objects  []object.Object
}

// readSnapshot reads a whole snapshot.
func (f *Follower) readSnapshot(ctx context.Context) (snapshot, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The timeout applies to each batch, because a large snapshot may take long, while a registry
	// that hangs must be noticed.
	watchdog := time.AfterFunc(f.cfg.CallTimeout, cancel)
	defer watchdog.Stop()
	stream, err := f.registry.Snapshot(ctx, &registryv1.SnapshotRequest{Kinds: f.cfg.Kinds})
	if err != nil {
		return snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	var snap snapshot
	for first := true; ; first = false {
		batch, err := stream.Recv()
		if err != nil {
			return snapshot{}, fmt.Errorf("snapshot after %d objects: %w", len(snap.objects), err)
		}
		watchdog.Reset(f.cfg.CallTimeout)
		if first {
			snap.epoch, snap.revision = batch.GetEpoch(), batch.GetRevision()
		}
		if batch.GetEpoch() != snap.epoch || batch.GetRevision() != snap.revision {
			return snapshot{}, fmt.Errorf("snapshot moved from revision %d to %d", snap.revision, batch.GetRevision())
		}
		for _, envelope := range batch.GetObjects() {
			if o := object.Unwrap(envelope); o != nil && f.follows(object.KindOf(o)) && f.keeps(o) {
				f.trim(o)
				snap.objects = append(snap.objects, o)
			}
		}
		if batch.GetComplete() {
			return snap, nil
		}
	}
}

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
	"portolan.dev/services/kit/guard"
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
		if short, ok := errors.AsType[*shortLog](err); ok && short.head == f.revision {
			f.distrust(forgedHead, err)
			err = nil
		}
	}
	if what == aSnapshot || errors.Is(err, errSnapshotNeeded) {
		if what = aSnapshot; f.synced.Load() && f.need != aSnapshot {
			f.need = aSnapshot
			app.Pause(ctx, rand.N(f.cfg.Jitter)) // #nosec G404 -- a pause is no secret
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
		f.nextRequestAt = now.Add(f.cfg.BookmarkEvery*3/4 + rand.N(f.cfg.BookmarkEvery/2)) // #nosec G404 -- a pause is no secret
		return
	}
	if ctx.Err() != nil {
		return
	}
	f.outage.Failed(err, "revision", f.revision)
	f.need = what
	pause := min(retryMin<<min(f.failures, 10), f.cfg.RetryMax)
	f.nextRequestAt = now.Add(pause/2 + rand.N(pause)) // #nosec G404 -- a pause is no secret
	f.failures++
}

// readLog applies the registry's log after the view, up to the log's head and at least up to
// revision upTo.
func (f *Follower) readLog(ctx context.Context, upTo uint64) error {
	for {
		asked := time.Now()
		answer, err := f.listChanges(ctx, healBatch)
		if err != nil {
			return err
		}
		if err := f.applyListed(ctx, answer.GetChanges()); err != nil {
			return err
		}
		head := answer.GetHeadRevision()
		if f.revision == head {
			f.markComplete(asked)
		}
		switch {
		case f.revision >= upTo && f.revision >= head:
			return nil
		case len(answer.GetChanges()) == 0:
			return &shortLog{view: f.revision, head: head, wanted: upTo}
		}
	}
}

// shortLog is returned if the registry's log ends before a revision that must exist according to
// NATS, or before the log's own head.
type shortLog struct{ view, head, wanted uint64 }

func (e *shortLog) Error() string {
	return fmt.Sprintf("the registry's log ends at %d, %d is known to exist", e.view, max(e.wanted, e.head))
}

// applyListed applies the next changes of the registry's log.
func (f *Follower) applyListed(ctx context.Context, listed []*registryv1.Change) error {
	for _, change := range listed {
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
	return nil
}

func (f *Follower) listChanges(ctx context.Context, limit int32) (*registryv1.ListChangesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.CallTimeout)
	defer cancel()
	answer, err := f.registry.ListChanges(ctx, &registryv1.ListChangesRequest{
		AfterRevision: f.revision, Limit: limit, Epoch: f.epoch,
	})
	if err := f.checkAnswer(err, answer.GetEpoch()); err != nil {
		return nil, err
	}
	return answer, nil
}

// checkAnswer returns the error of a request about the log. The error is errSnapshotNeeded if the
// log no longer has the changes after the view, or has another epoch.
func (f *Follower) checkAnswer(err error, epoch string) error {
	switch code := status.Code(err); {
	case code == codes.OutOfRange || code == codes.FailedPrecondition:
		return fmt.Errorf("%w: %w", errSnapshotNeeded, err)
	case err != nil:
		return err
	case epoch != f.epoch:
		return errSnapshotNeeded
	}
	return nil
}

// applySnapshot reads a snapshot and passes its difference to the view to Apply. It uses nothing of
// a snapshot before the snapshot is complete.
func (f *Follower) applySnapshot(ctx context.Context) error {
	asked := time.Now()
	minRevision := f.minSnapshotRevision
	f.minSnapshotRevision = 0
	snap, err := f.readSnapshot(ctx, minRevision)
	if err != nil {
		return err
	}
	return f.adopt(ctx, snap, asked, f.reasonFor(snap))
}

// adopt makes the view equal to a snapshot that was asked for at the given time.
func (f *Follower) adopt(ctx context.Context, snap snapshot, asked time.Time, reason string) error {
	if snap.epoch == f.epoch && snap.revision < f.revision && !f.healing {
		return fmt.Errorf("snapshot is at revision %d, the view already at %d", snap.revision, f.revision)
	}
	f.metrics.snapshots.WithLabelValues(reason).Inc()
	// A forged object may have the version of the true one.
	versionsTell := f.epoch == snap.epoch && !f.healing
	f.epoch, f.expected = snap.epoch, expectedHead{}
	f.logEpoch.Store(&snap.epoch)
	f.behind, f.lastTold, f.longTold = toldHead{}, toldHead{}, toldHead{}
	f.unverified.clear()
	f.healing = false
	diff := f.view.replace(snap, versionsTell)
	for i := range diff {
		f.former.correct(&diff[i])
		if diff[i].New == nil {
			f.cfg.Guard.Done(stepRead, guard.Object(diff[i].Key))
		}
	}
	if reason == afterForgery || reason == byRequest {
		f.corrected += len(diff)
	}
	f.pending = append(f.pending, diff...)
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
	case f.healing:
		return afterForgery
	}
	return afterPrune
}

type snapshot struct {
	epoch    string
	revision uint64
	objects  []object.Object
	// unread are the objects for which Keep or Trim panicked. The view keeps its versions of them.
	unread []object.Key
}

// readSnapshot reads a whole snapshot of the followed kinds, of the given revision or a later one.
func (f *Follower) readSnapshot(ctx context.Context, minRevision uint64) (snapshot, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The timeout applies to each batch, because a large snapshot may take long, while a registry
	// that hangs must be noticed.
	watchdog := time.AfterFunc(f.cfg.CallTimeout, cancel)
	defer watchdog.Stop()
	stream, err := f.registry.Snapshot(ctx, &registryv1.SnapshotRequest{Kinds: f.cfg.Kinds, MinRevision: minRevision})
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
			f.addToSnapshot(&snap, object.Unwrap(envelope))
		}
		if batch.GetComplete() {
			return snap, nil
		}
	}
}

// addToSnapshot adds an object to a snapshot if the follower keeps it. o is nil if its kind is not known.
func (f *Follower) addToSnapshot(snap *snapshot, o object.Object) {
	if o == nil {
		return
	}
	key := object.KeyOf(o)
	if !f.follows(key.Kind) {
		return
	}
	switch kept, err := f.prepare(key, o, false); {
	case err != nil:
		snap.unread = append(snap.unread, key)
	case kept:
		snap.objects = append(snap.objects, o)
	}
}

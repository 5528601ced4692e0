package changes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
)

// toldHead is a head of the log in an answer of the registry.
type toldHead struct {
	head uint64
	at   time.Time // arrival of the registry's answer
}

// verifyDue reports whether the changes from NATS are to be compared with the log now. The comparison is
// also due without such changes, because its answer has the log's head, which shows suppressed changes.
func (f *Follower) verifyDue(now time.Time) bool {
	switch {
	case f.cfg.NATS == nil || !f.synced.Load() || f.need == aSnapshot:
		return false
	case f.unverified.isEmpty():
		return f.connected && !f.ignoresNATS(now) && !now.Before(f.nextVerifyAt)
	}
	return !now.Before(f.nextVerifyAt) || f.verifyFailures == 0 && len(f.unverified.taken) > MaxVerify/2
}

// ignoresNATS reports whether the follower takes no changes from NATS, because it received a forged
// message, or because the registry has not verified its changes for a long time.
func (f *Follower) ignoresNATS(now time.Time) bool {
	return now.Before(f.distrustedUntil) || !f.unverified.isEmpty() && now.Sub(f.unverified.since) > f.cfg.StaleAfter
}

// verify compares the changes from NATS with the registry's log. It returns only errors of Apply.
func (f *Follower) verify(ctx context.Context) error {
	err := f.compareRange(ctx)
	if refused, ok := errors.AsType[*applyError](err); ok {
		return refused.err
	}
	return nil
}

// compareRange compares the changes from NATS with the registry's log, and sets the time of the next
// comparison. If they differ, it makes the view equal to a snapshot.
func (f *Follower) compareRange(ctx context.Context) error {
	answer, err := f.requestVerify(ctx)
	now := time.Now()
	if err != nil && !errors.Is(err, errSnapshotNeeded) {
		if ctx.Err() == nil {
			f.verifyOutage.Failed(err, "revision", f.revision)
		}
		pause := min(retryMin<<min(f.verifyFailures, 10), f.cfg.RetryMax)
		f.nextVerifyAt = now.Add(pause/2 + rand.N(pause)) // #nosec G404 -- a pause is no secret
		f.verifyFailures++
		return err
	}
	f.verifyOutage.Over("revision", f.revision)
	f.verifyFailures = 0
	f.nextVerifyAt = now.Add(f.cfg.VerifyEvery*4/5 + rand.N(f.cfg.VerifyEvery*2/5)) // #nosec G404 -- a pause is no secret
	if err != nil {
		return f.takeSnapshot(ctx)
	}
	if !answer.GetMatches() {
		f.distrust(forgedChanges, fmt.Errorf("revisions %d to %d are not the ones of the registry's log, which is at %d",
			f.unverified.after+1, f.unverified.last(), answer.GetHeadRevision()))
		f.healing, f.minSnapshotRevision = true, answer.GetHeadRevision()
		return f.takeSnapshot(ctx)
	}
	f.unverified.clear()
	f.noteHead(toldHead{head: answer.GetHeadRevision(), at: now})
	return nil
}

// requestVerify asks the registry to compare the changes from NATS with its log.
func (f *Follower) requestVerify(ctx context.Context) (*registryv1.VerifyResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.CallTimeout)
	defer cancel()
	request := &registryv1.VerifyRequest{Epoch: f.epoch, AfterRevision: f.unverified.after, Taken: f.unverified.taken, Digest: f.unverified.sum.Sum(nil)}
	if f.unverified.isEmpty() {
		request.AfterRevision = f.revision
	}
	answer, err := f.registry.Verify(ctx, request)
	if err := f.checkAnswer(err, answer.GetEpoch()); err != nil {
		return nil, err
	}
	return answer, nil
}

// takeSnapshot takes a snapshot at once. If that fails, it is repeated later.
func (f *Follower) takeSnapshot(ctx context.Context) error {
	f.need = aSnapshot
	err := f.applySnapshot(ctx)
	if _, refused := errors.AsType[*applyError](err); !refused {
		f.recordResult(ctx, aSnapshot, err)
	}
	return err
}

// noteHead records the log's head in an answer of the registry.
func (f *Follower) noteHead(told toldHead) {
	if f.revision >= f.behind.head {
		f.behind = told
	}
	if told.at.Sub(f.lastTold.at) > f.cfg.StaleAfter {
		f.longTold, f.lastTold = f.lastTold, told
	}
}

// lacksTold reports whether the view has not reached a head that the registry reported at least one
// bookmark period ago. Then messages are lost, late or suppressed.
func (f *Follower) lacksTold(now time.Time) bool {
	return f.revision < f.behind.head && now.Sub(f.behind.at) >= f.cfg.BookmarkEvery
}

// contradictsTold reports whether a bookmark names an earlier head than the registry reported more than
// StaleAfter before the bookmark arrived. Such a bookmark is repeated or forged, to hide that changes
// are suppressed. If the difference of the times is smaller, the bookmark may be late.
func (f *Follower) contradictsTold(head uint64) bool {
	return head < f.longTold.head && f.queueEmptyAt.Sub(f.longTold.at) > f.cfg.StaleAfter
}

// distrust records that NATS delivered a forged message. From now on the follower ignores messages
// for DistrustFor and reads the registry's log, because otherwise an attacker could send the next
// forged message after each repair.
//
// The daemon stays ready. Its view is repaired and follows the registry, while an attacker on NATS
// could take all daemons out of service if they became unready.
func (f *Follower) distrust(what string, reason error) {
	f.metrics.forged.WithLabelValues(what).Inc()
	f.distrustedUntil = time.Now().Add(f.cfg.DistrustFor)
	f.distrustReason, f.expected = reason, expectedHead{}
	f.cfg.Log.Error("NATS delivered what the registry's log does not have; for some time changes are read from the registry only",
		"what", what, "err", reason, "for", f.cfg.DistrustFor)
	f.warn(fmt.Errorf("NATS delivered what the registry's log does not have, so its messages are ignored until %s: %w",
		f.distrustedUntil.UTC().Format(time.RFC3339), reason))
}

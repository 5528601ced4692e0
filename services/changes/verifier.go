package changes

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"sync"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
)

const (
	// verifierSlots is the number of digests that are kept, of the newest changes. It is more than one
	// call compares.
	verifierSlots = 16384
	// verifierBatch is the number of changes that are read from the log at once.
	verifierBatch = 256
)

// Verifier compares the changes that followers took from the stream with the log. It keeps the
// digests of the newest changes, because every follower asks for the same ones every few seconds,
// and reading them from the log each time would cost a database more than all other reads. It gets them
// from the relay ([RelayConfig]), which reads each change anyway while the change is still in memory. It
// is safe for concurrent use.
type Verifier struct {
	log Log

	mu     sync.Mutex
	epoch  string    // of the kept digests
	slots  []digests // by revision modulo verifierSlots
	reread time.Time // the last time that a range was read again
}

// NewVerifier returns a Verifier of a log.
func NewVerifier(log Log) *Verifier { return &Verifier{log: log} }

// Verify answers a request of ChangeService. Its errors have gRPC codes, except errors of the log.
func (v *Verifier) Verify(ctx context.Context, req *registryv1.VerifyRequest) (*registryv1.VerifyResponse, error) {
	if n := len(req.GetTaken()); n > MaxVerify {
		var found apierr.Violations
		found.Add("taken", apierr.ReasonInvalid, "%d revisions, at most %d are compared at once: ask in parts", n, MaxVerify)
		return nil, apierr.Invalid("VerifyRequest", "", found)
	}
	epoch, head, oldest, err := v.log.Head(ctx)
	switch {
	case err != nil:
		return nil, err
	case req.GetEpoch() != epoch:
		return nil, apierr.FailedPrecondition(fmt.Sprintf("the log is at epoch %q, not %q: take a snapshot", epoch, req.GetEpoch()))
	case len(req.GetTaken()) > 0 && req.GetAfterRevision() < oldest:
		return nil, apierr.OutOfRange(fmt.Sprintf("changes after %d are no longer kept, the oldest start after %d", req.GetAfterRevision(), oldest), oldest)
	}
	answer := &registryv1.VerifyResponse{Epoch: epoch, HeadRevision: head}
	if req.GetAfterRevision()+uint64(len(req.GetTaken())) > head {
		return answer, nil
	}
	if answer.Matches, err = v.matches(ctx, epoch, req, false); err != nil || answer.GetMatches() || !v.mayReread() {
		return answer, err
	}
	answer.Matches, err = v.matches(ctx, epoch, req, true)
	return answer, err
}

// mayReread reports whether a range may be read from the log again because it does not match the
// kept digests. A log that was set back to a backup has other changes than those, until it gets a
// new epoch. Rereading has a limit because a caller can ask for any range with a wrong digest.
func (v *Verifier) mayReread() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Since(v.reread) < time.Second {
		return false
	}
	v.reread = time.Now()
	return true
}

// matches reports whether the log's digest of a range is the requested one. If anew is set, it uses
// no kept digests.
func (v *Verifier) matches(ctx context.Context, epoch string, req *registryv1.VerifyRequest, anew bool) (bool, error) {
	sum, buf := sha256.New(), make([]digests, 0, verifierBatch)
	after := req.GetAfterRevision()
	for left := req.GetTaken(); len(left) > 0; {
		batch, err := v.read(ctx, epoch, after, buf[:min(len(left), verifierBatch)], anew)
		if err != nil {
			return false, err
		}
		for i := range batch {
			switch taken(left[i]) {
			case takenNothing:
			case takenWhole:
				sum.Write(batch[i].whole[:])
			case takenFact:
				sum.Write(batch[i].fact[:])
			default:
				return false, nil
			}
		}
		left, after = left[len(batch):], after+uint64(len(batch))
	}
	return subtle.ConstantTimeCompare(sum.Sum(nil), req.GetDigest()) == 1, nil
}

// read fills the beginning of batch with the digests of the changes after a revision, and returns
// this part. It has at least one.
func (v *Verifier) read(ctx context.Context, epoch string, after uint64, batch []digests, anew bool) ([]digests, error) {
	if !anew {
		if n := v.kept(epoch, after, batch); n > 0 {
			return batch[:n], nil
		}
	}
	logged, err := v.log.After(ctx, after, len(batch))
	if err != nil {
		return nil, fmt.Errorf("read the log after %d: %w", after, err)
	}
	if len(logged) == 0 {
		return nil, fmt.Errorf("read the log after %d: %w", after, errLogEnds)
	}
	one := newDigester()
	for i, change := range logged {
		var known bool
		want := after + 1 + uint64(i) // an index is not negative
		if batch[i], known = one.of(change); !known || batch[i].revision != want {
			return nil, fmt.Errorf("the log has revision %d where %d is due, or an object of an unknown kind", change.GetRevision(), want)
		}
	}
	v.keep(epoch, batch[:len(logged)])
	return batch[:len(logged)], nil
}

// kept fills the beginning of batch with the kept digests of the changes after a revision, and
// returns their number.
func (v *Verifier) kept(epoch string, after uint64, batch []digests) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.slots == nil || v.epoch != epoch {
		return 0
	}
	for i := range batch {
		revision := after + 1 + uint64(i) // an index is not negative
		slot := &v.slots[revision%verifierSlots]
		if slot.revision != revision {
			return i
		}
		batch[i] = *slot
	}
	return len(batch)
}

// note keeps the digests of changes that were read from the log. It does nothing if v is nil.
func (v *Verifier) note(epoch string, logged []LoggedChange) {
	if v == nil {
		return
	}
	one, batch := newDigester(), make([]digests, 0, len(logged))
	for _, change := range logged {
		if d, known := one.of(change); known {
			batch = append(batch, d)
		}
	}
	v.keep(epoch, batch)
}

func (v *Verifier) keep(epoch string, batch []digests) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.slots == nil || v.epoch != epoch {
		v.epoch, v.slots = epoch, make([]digests, verifierSlots)
	}
	for _, d := range batch {
		v.slots[d.revision%verifierSlots] = d
	}
}

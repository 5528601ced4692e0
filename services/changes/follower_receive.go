package changes

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
)

// Headers that the NATS server sets on republished messages.
const (
	headerStatus   = "Status"
	headerStream   = "Nats-Stream"
	headerSubject  = "Nats-Subject"
	headerSequence = "Nats-Sequence"
)

// drain receives a message and all messages queued behind it, and passes their changes to Apply at
// once.
func (f *Follower) drain(ctx context.Context, m *nats.Msg, msgs <-chan *nats.Msg) error {
	for waiting := len(msgs); ; waiting-- {
		if err := f.receive(ctx, m); err != nil {
			return err
		}
		if waiting == 0 || ctx.Err() != nil {
			break
		}
		m = <-msgs
	}
	if len(f.pending) > 0 {
		return f.callApply(ctx)
	}
	return nil
}

// receive processes one message: a bookmark or a change. It checks all fields, because any client
// with permission to publish on the subjects could have sent the message. An invalid message is
// dropped, and the follower later finds that its revision is missing. A valid message is used, and is
// verified at the next comparison with the registry's log.
func (f *Follower) receive(ctx context.Context, m *nats.Msg) error {
	if f.ignoresNATS(time.Now()) {
		return nil
	}
	if m.Subject == f.subjects.Head() {
		return f.bookmark(ctx, m)
	}
	kind, subject, published, ok := f.subjects.split(m.Subject)
	if !ok || m.Header.Get(headerStatus) != "" || m.Header.Get(headerStream) != f.subjects.stream() || m.Header.Get(headerSubject) != published {
		return nil
	}
	revision, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	if err != nil || f.need == aSnapshot {
		return nil
	}
	epoch := m.Header.Get(headerEpoch)
	if epoch != f.epoch {
		return f.handleForeignEpoch(ctx)
	}
	if revision <= f.revision {
		return nil // the view has it
	}
	if revision > f.revision+1 {
		if err := f.readMissing(ctx, revision-1); err != nil {
			return err
		}
	}
	if !f.unverified.hasRoom(revision) {
		if err := f.verify(ctx); err != nil {
			return err
		}
	}
	if revision != f.revision+1 || epoch != f.epoch || !f.unverified.hasRoom(revision) || f.ignoresNATS(time.Now()) {
		return nil
	}
	return f.take(ctx, m, kind, subject, revision)
}

// take applies the change after the view's revision from a message.
func (f *Follower) take(ctx context.Context, m *nats.Msg, kind, subject string, revision uint64) error {
	if m.Header.Get(headerEncoding) != encoding {
		return f.readMissing(ctx, revision)
	}
	if !f.follows(kind) || f.isOfOtherNode(m.Header) {
		f.unverified.add(revision, subject, m, time.Now())
		f.setRevision(revision)
		return nil
	}
	if m.Header.Get(headerElided) != "" || kind == revocationKind {
		return f.readMissing(ctx, revision)
	}
	change := &registryv1.Change{}
	if change.UnmarshalVT(m.Data) != nil || change.GetRevision() != revision || !isOfKind(change, kind) {
		f.distrust(forgedMessage, fmt.Errorf("the message of revision %d has the change of another revision or kind, or none", revision))
		return f.readMissing(ctx, revision)
	}
	f.unverified.add(revision, subject, m, time.Now())
	f.applyChange(change)
	return nil
}

// isOfKind reports whether the object of a change is of the given kind.
func isOfKind(change *registryv1.Change, kind string) bool {
	o := object.Unwrap(change.GetObject())
	return o != nil && object.KindOf(o) == kind
}

// applyChange applies the next change to the view.
func (f *Follower) applyChange(change *registryv1.Change) {
	f.setRevision(change.GetRevision())
	o := object.Unwrap(change.GetObject())
	if o == nil {
		return // the object's kind was added in a later version
	}
	key := object.KeyOf(o)
	if !f.follows(key.Kind) {
		return
	}
	entry := Change{Revision: change.GetRevision(), Kind: key.Kind, Key: key, Traceparent: change.GetTraceparent()}
	kept, err := f.prepare(key, o, change.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE)
	if err != nil {
		return // the view keeps the former version
	}
	if kept {
		entry.New = o
		entry.Old = f.view.put(key, o)
	} else if entry.Old = f.view.remove(key); entry.Old == nil {
		return
	}
	f.former.correct(&entry)
	f.pending = append(f.pending, entry)
}

// prepare trims an object that was read, and reports whether the follower keeps it. The error is a panic of Keep
// or Trim.
func (f *Follower) prepare(key object.Key, o object.Object, deleted bool) (kept bool, err error) {
	if deleted {
		f.cfg.Guard.Done(stepRead, guard.Object(key))
		return false, nil
	}
	if f.isRevocation(o) {
		return true, nil
	}
	err = f.cfg.Guard.Do(stepRead, guard.Object(key), func() error {
		if kept = f.cfg.Keep == nil || f.cfg.Keep(o); kept && f.cfg.Trim != nil {
			f.cfg.Trim(o)
		}
		return nil
	})
	return kept, err
}

func (f *Follower) follows(kind string) bool { return len(f.kinds) == 0 || f.kinds[kind] }

// bookmark compares the view with the log's head in a bookmark. A bookmark may overtake the changes
// before it, so a head beyond the view is only remembered. If another bookmark arrives half a
// period later and the view has still not reached that head, changes were lost.
//
// A bookmark may have waited in the queue while the registry was asked. It therefore proves
// completeness only for the time when the queue was last empty, not for now.
func (f *Follower) bookmark(ctx context.Context, m *nats.Msg) error {
	mark := &registryv1.Bookmark{}
	if m.Header.Get(headerStream) != "" || m.Header.Get(headerStatus) != "" || mark.UnmarshalVT(m.Data) != nil || f.need == aSnapshot {
		return nil
	}
	if mark.GetEpoch() != f.epoch {
		return f.handleForeignEpoch(ctx)
	}
	if f.contradictsTold(mark.GetRevision()) {
		f.distrust(forgedHead, fmt.Errorf("a bookmark says that the log ends at %d, the registry said %s before that it was at %d",
			mark.GetRevision(), f.queueEmptyAt.Sub(f.longTold.at).Round(time.Second), f.longTold.head))
		return nil
	}
	now := time.Now()
	f.lastBookmark, f.connected = now, true
	switch {
	case mark.GetRevision() <= f.revision:
		f.markComplete(f.queueEmptyAt)
	case f.expected.head == 0:
		f.expected = expectedHead{head: mark.GetRevision(), at: f.queueEmptyAt, seen: now}
	case now.Sub(f.expected.seen) >= f.cfg.BookmarkEvery/2:
		lost := f.expected.head
		f.expected = expectedHead{}
		return f.readMissing(ctx, lost)
	}
	return nil
}

// readMissing reads the missing changes up to a revision from the registry's log. It does nothing while an
// failed request waits for its repetition, because the answer to that request has these changes too.
func (f *Follower) readMissing(ctx context.Context, upTo uint64) error {
	if f.need != nothing {
		return nil
	}
	if len(f.pending) > 0 {
		if err := f.callApply(ctx); err != nil {
			return err
		}
	}
	f.jitter(ctx, upTo-f.revision)
	return f.askUpTo(ctx, theLog, upTo)
}

// handleForeignEpoch handles a message of another epoch than the view's by asking the registry which epoch is
// current. Once the registry has confirmed the view's epoch, messages of other epochs are ignored
// for one bookmark period.
func (f *Follower) handleForeignEpoch(ctx context.Context) error {
	now := time.Now()
	if now.Before(f.epochTrustedUntil) {
		return nil
	}
	f.epochTrustedUntil = now.Add(f.cfg.BookmarkEvery)
	return f.readMissing(ctx, f.revision)
}

package changes

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"portolan.dev/services/object"
)

// Begin, Receive, Verify, Tick and Compare are the steps of Run, for tests that control their order.

func (f *Follower) Begin(ctx context.Context) error                { return f.ask(ctx, aSnapshot) }
func (f *Follower) Receive(ctx context.Context, m *nats.Msg) error { return f.receive(ctx, m) }
func (f *Follower) Tick(ctx context.Context) error                 { return f.tick(ctx) }
func (f *Follower) Verify(ctx context.Context) error               { return f.verify(ctx) }
func (f *Follower) Compare(ctx context.Context) (int, error)       { return f.compare(ctx, true) }
func (f *Follower) Drain(ctx context.Context, ms ...*nats.Msg) error {
	return f.DrainLate(ctx, time.Now(), ms...)
}

// DrainLate is Drain for messages that have waited since the given time.
func (f *Follower) DrainLate(ctx context.Context, since time.Time, ms ...*nats.Msg) error {
	f.queueEmptyAt = since
	queue := make(chan *nats.Msg, len(ms))
	for _, m := range ms[1:] {
		queue <- m
	}
	return f.drain(ctx, ms[0], queue)
}

// Position returns the epoch and the revision of the view.
func (f *Follower) Position() (epoch string, revision uint64) { return f.epoch, f.revision }

var EncodeToken = encodeToken

// Corrupt puts an object into the view without a change of the log.
func (f *Follower) Corrupt(o object.Object) { f.view.put(object.KeyOf(o), o) }

// Rewind sets the view's revision back, without verification of the changes since then.
func (f *Follower) Rewind(revision uint64) {
	f.revision, f.pending = revision, nil
	f.unverified.clear()
}

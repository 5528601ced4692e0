package changes

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/tracing"
)

// RelayConfig is what a relay is made of.
type RelayConfig struct {
	NATS *nats.Conn
	Log  Log
	// Prefix of all subjects; empty: DefaultPrefix.
	Prefix string
	// Replicas of the stream, used when it is created; 0: 1.
	Replicas int
	// MaxMsgs and MaxBytes bound the stream, used when it is created; 0: 100,000 and 512 MiB.
	MaxMsgs, MaxBytes int64
	Logger            *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Tracer notes in the traces of changes when the stream had them. Nil: there are none.
	Tracer *tracing.Tracer

	// BookmarkEvery is the time between two bookmarks; 0: 2 s.
	BookmarkEvery time.Duration
	// CheckEvery is the time between two looks at the stream's state; 0: 2 s.
	CheckEvery time.Duration
	// PollEvery is the time after which the log is read though nobody said that it moved; 0: 250 ms.
	PollEvery time.Duration
	// AckTimeout bounds the wait for the stream's answer to one message; 0: 10 s.
	AckTimeout time.Duration
	// StuckAfter is how long a stream may answer and yet take nothing before it is made anew; 0: 30 s.
	StuckAfter time.Duration
}

// Relay publishes the registry's log to the stream. Any number may run at once: the stream takes each revision once, from whoever is first.
type Relay struct {
	cfg      RelayConfig
	subjects subjects
	js       jetstream.JetStream
	metrics  relayMetrics

	last atomic.Uint64 // of the stream, as last heard

	// verified is a revision whose message is known to be the log's, in the epoch verifiedIn.
	verified   uint64
	verifiedIn string
	refusals   refusals
	patience   patience // with questions about the stream
}

// NewRelay returns a relay; Run makes it work.
func NewRelay(cfg RelayConfig) (*Relay, error) {
	names, err := newSubjects(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	cfg.Replicas = cmp.Or(cfg.Replicas, 1)
	cfg.MaxMsgs = cmp.Or(cfg.MaxMsgs, 100_000)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 512<<20)
	cfg.BookmarkEvery = cmp.Or(cfg.BookmarkEvery, 2*time.Second)
	cfg.CheckEvery = cmp.Or(cfg.CheckEvery, 2*time.Second)
	cfg.PollEvery = cmp.Or(cfg.PollEvery, 250*time.Millisecond)
	cfg.AckTimeout = cmp.Or(cfg.AckTimeout, 10*time.Second)
	cfg.StuckAfter = cmp.Or(cfg.StuckAfter, 30*time.Second)
	js, err := jetstream.New(cfg.NATS,
		jetstream.WithPublishAsyncMaxPending(publishWindow),
		jetstream.WithPublishAsyncTimeout(cfg.AckTimeout),
		jetstream.WithDefaultTimeout(cfg.AckTimeout))
	if err != nil {
		return nil, err
	}
	return &Relay{cfg: cfg, subjects: names, js: js, metrics: newRelayMetrics(cfg.Metrics), refusals: refusals{limit: cfg.StuckAfter},
		patience: patience{most: cfg.AckTimeout}}, nil
}

// Run relays until ctx is done, and returns nil then. NATS or the store being away is waited out.
func (r *Relay) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var bookmarks sync.WaitGroup
	defer bookmarks.Wait()
	defer cancel()
	bookmarks.Go(func() { r.bookmarks(ctx) })

	outage := obs.Outage{Log: r.cfg.Logger, Down: "change stream cannot be fed", Up: "change stream is fed again"}
	for pause := time.Duration(0); ctx.Err() == nil; {
		err := r.round(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			if ctx.Err() == nil {
				outage.Over("last", r.last.Load())
			}
			pause = 0
			continue
		case errors.Is(err, errConflict):
			pause = 0 // somebody else is at work: no trouble, only a new look is needed
		default:
			outage.Failed(err)
		}
		r.js.CleanupPublisher()
		pause = min(2*pause, time.Second)
		pause = max(pause, 5*time.Millisecond+rand.N(40*time.Millisecond))
		app.Pause(ctx, pause)
	}
	r.js.CleanupPublisher()
	return nil
}

// round looks at the stream, puts it right, and feeds it for a while.
func (r *Relay) round(ctx context.Context) error {
	ctx, done, err := r.whileConnected(ctx)
	if err != nil {
		r.refusals.forget()
		return err
	}
	defer done()
	epoch, last, err := r.align(ctx)
	if err != nil {
		r.refusals.forget() // a stream that does not answer is not one that refuses
		return err
	}
	err = r.feed(ctx, epoch, last)
	if !r.refusals.note(err) {
		return err
	}
	if rebuildErr := r.rebuild(ctx, "it answers but takes nothing", true); rebuildErr != nil {
		return rebuildErr
	}
	return nil
}

// whileConnected returns a context that ends with the connection: no answer comes to what was asked on one that was lost, and waiting for it
// would hold up the stream for as long as one may take.
func (r *Relay) whileConnected(ctx context.Context) (context.Context, func(), error) {
	lost := r.cfg.NATS.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	if !r.cfg.NATS.IsConnected() {
		r.cfg.NATS.RemoveStatusListener(lost)
		return nil, nil, nats.ErrDisconnected
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-lost:
			cancel(nats.ErrDisconnected)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watch.Wait()
		r.cfg.NATS.RemoveStatusListener(lost)
	}, nil
}

// bookmarks says every now and then how far the log is.
func (r *Relay) bookmarks(ctx context.Context) {
	ticker := time.NewTicker(r.cfg.BookmarkEvery)
	defer ticker.Stop()
	for {
		r.bookmark(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// bookmark tells followers the newest revision of the log, not of the stream: a stream that hangs then holds nobody up.
func (r *Relay) bookmark(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.AckTimeout)
	defer cancel()
	epoch, head, _, err := r.cfg.Log.Head(ctx)
	if err != nil {
		return // round meets the same error and reports it
	}
	r.metrics.lag.Set(float64(head - min(head, r.last.Load())))
	if !r.cfg.NATS.IsConnected() {
		return // what is buffered now is stale when it arrives
	}
	payload, err := (&registryv1.Bookmark{Epoch: epoch, Revision: head}).MarshalVT()
	if err == nil {
		err = r.cfg.NATS.Publish(r.subjects.head(), payload)
	}
	if err != nil {
		r.cfg.Logger.Debug("bookmark not published", "err", err)
	}
}

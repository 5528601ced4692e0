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

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/tracing"
)

// HealthRelay is the part that a relay warns about.
const HealthRelay = "change stream"

// RelayConfig is the configuration of a relay.
type RelayConfig struct {
	NATS *nats.Conn
	Log  Log
	// Prefix is the prefix of all subjects. The default is DefaultPrefix.
	Prefix string
	// Replicas is the number of replicas with which the stream is created; 0 means 1.
	Replicas int
	// MaxMsgs and MaxBytes are the limits with which the stream is created; 0 means 100,000
	// messages and 512 MiB.
	MaxMsgs, MaxBytes int64
	Logger            *slog.Logger
	// Verifier, if not nil, gets the digests of the changes that the relay reads, so that it need not
	// read them again. It must be of the same log.
	Verifier *Verifier
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Health, if not nil, gets the reason why the stream is not fed as a warning of the part
	// [HealthRelay].
	Health *health.Registry
	// Tracer adds to the trace of each change the span of its publication. If it is nil, nothing is
	// traced.
	Tracer *tracing.Tracer

	// BookmarkEvery is the time between two bookmarks; 0 means 2 s.
	BookmarkEvery time.Duration
	// CheckEvery is the time between two checks of the stream's state; 0 means 2 s.
	CheckEvery time.Duration
	// PollEvery is the time after which the log is read even if Wake has not fired; 0 means 250 ms.
	PollEvery time.Duration
	// AckTimeout is the timeout of the stream's acknowledgement of one message; 0 means 10 s.
	AckTimeout time.Duration
	// StuckAfter is the time after which a stream that answers but refuses every message is
	// recreated; 0 means 30 s.
	StuckAfter time.Duration
}

// Relay publishes the registry's log to the stream. Several relays may run at once: the stream
// accepts each revision once, from the first relay that sends it.
type Relay struct {
	cfg      RelayConfig
	subjects Subjects
	js       jetstream.JetStream
	metrics  relayMetrics

	// last is the last known sequence of the stream.
	last atomic.Uint64
	// foreign reports that the stream belongs to another installation. The followers of that one would
	// take bookmarks of this one for forged.
	foreign atomic.Bool

	// verified is a revision for which the stream's message is known to equal the log's change, in
	// the epoch verifiedIn.
	verified   uint64
	verifiedIn string
	ownership  ownership
	refusals   refusals
	cautious   bool     // the last batch failed
	patience   patience // timeout of requests about the stream
}

// NewRelay returns a relay. Run starts it.
func NewRelay(cfg RelayConfig) (*Relay, error) {
	names, err := NewSubjects(cfg.Prefix)
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
		ownership: ownership{prefix: names.Prefix()}, patience: patience{most: cfg.AckTimeout}}, nil
}

// Run relays until ctx is done, and then returns nil. While NATS or the store is away, Run retries.
func (r *Relay) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var bookmarks sync.WaitGroup
	defer bookmarks.Wait()
	defer cancel()
	bookmarks.Go(func() { r.bookmarks(ctx) })

	state := newRelayState(r.cfg, r.metrics.refused)
	for pause := time.Duration(0); ctx.Err() == nil; {
		err := r.runOnce(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			if ctx.Err() == nil {
				state.fed(r.last.Load())
			}
			pause = 0
			continue
		case errors.Is(err, errConflict):
			// Another relay published first. That is no failure; the stream only has to be compared
			// again.
			pause = 0
		default:
			state.failed(err)
		}
		r.js.CleanupPublisher()
		pause = min(2*pause, time.Second)
		pause = max(pause, 5*time.Millisecond+rand.N(40*time.Millisecond)) // #nosec G404 -- a pause is no secret
		app.Pause(ctx, pause)
	}
	r.js.CleanupPublisher()
	return nil
}

// runOnce aligns the stream with the log and then feeds it until the next check is due.
func (r *Relay) runOnce(ctx context.Context) error {
	ctx, done, err := r.whileConnected(ctx)
	if err != nil {
		r.refusals.forget()
		return err
	}
	defer done()
	if err := CheckServer(r.cfg.NATS); err != nil {
		r.refusals.forget()
		return err
	}
	epoch, last, err := r.align(ctx)
	if err != nil {
		// A stream that does not answer does not count as one that refuses.
		r.refusals.forget()
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

// whileConnected returns a context that is cancelled when the connection is lost. Requests sent on
// a lost connection are never answered, and waiting for them would block the stream for a whole
// timeout.
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

// bookmarks publishes a bookmark every BookmarkEvery.
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

// bookmark publishes the newest revision of the log. It does not use the stream's last revision, so
// that followers notice missing changes even if the stream hangs.
func (r *Relay) bookmark(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.AckTimeout)
	defer cancel()
	epoch, head, _, err := r.cfg.Log.Head(ctx)
	if err != nil {
		return // round meets the same error and reports it
	}
	r.metrics.lag.Set(float64(head - min(head, r.last.Load())))
	if !r.cfg.NATS.IsConnected() || r.foreign.Load() {
		return // a buffered bookmark would be out of date on arrival
	}
	payload, err := (&registryv1.Bookmark{Epoch: epoch, Revision: head}).MarshalVT()
	if err == nil {
		err = r.cfg.NATS.Publish(r.subjects.Head(), payload)
	}
	if err != nil {
		r.cfg.Logger.Debug("bookmark not published", "err", err)
	}
}

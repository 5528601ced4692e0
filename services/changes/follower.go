package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// HealthCheck is the name under which followers report to the health registry.
const HealthCheck = "changes"

// FollowerConfig is what a follower is made of.
type FollowerConfig struct {
	// Registry serves the snapshot and the log.
	Registry grpc.ClientConnInterface
	// NATS brings changes as they happen. It need not be connected; nil: the registry's log is read every BookmarkEvery instead.
	NATS *nats.Conn
	// Prefix of all subjects; empty: DefaultPrefix.
	Prefix string
	// Kinds to follow, such as "Service"; empty: all.
	Kinds []string
	// Keep says which objects of the kinds matter; nil: all. What does not is never in the view nor handed to Apply, and costs no memory once it
	// was read; an object that no longer matters is handed over as deleted. Its answer may depend on the object alone.
	Keep func(object.Object) bool
	// Trim removes from an object what the daemon does not need, before the follower stores it and
	// compares it with what it has; nil: nothing is removed. It is called once for each object that
	// is read and kept. The object belongs to Trim until it returns, and is never changed later.
	Trim func(object.Object)
	// VersionsOnly is for daemons that remember themselves what they need: the view, and the Old of changes, then have no more of objects than
	// tells their versions apart (namespace, name, uid, resource version).
	VersionsOnly bool
	// Log must be given.
	Log *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Health learns whether the view is there and how fresh it is; may be nil.
	Health *health.Registry
	// Tracer continues the traces of changes: what Apply begins with its context is part of that of the first change. Nil: there are none.
	Tracer *tracing.Tracer
	// Apply is handed all changes in order, as many at once as there are, by one goroutine. The first call is the whole snapshot, which may be
	// empty. Later ones are empty where only other kinds changed, or objects that a new snapshot found unchanged: then revision alone moves.
	// After Apply returned nil everything up to revision counts as applied. An error ends Run: retry inside what can be retried.
	// The changes are the callee's to keep, the objects in them are shared.
	Apply func(ctx context.Context, changes []Change, revision uint64) error

	// BookmarkEvery is how often the relay says how far the log is; 0: 2 s. After three periods of silence the registry is asked instead.
	BookmarkEvery time.Duration
	// IdleEvery bounds how often Apply is called for revisions without changes; 0: 100 ms.
	IdleEvery time.Duration
	// Jitter is the longest random delay before more than a few missing revisions are asked for, so that a thousand followers that lost the
	// same ones do not ask at once; 0: 1 s.
	Jitter time.Duration
	// RetryMax is the longest pause between two questions to a registry that does not answer; 0: 5 s.
	RetryMax time.Duration
	// CallTimeout bounds one answer of the registry, or one batch of a snapshot; 0: 10 s.
	CallTimeout time.Duration
	// StaleAfter is the age from which health says that the view is stale; 0: 30 s.
	StaleAfter time.Duration
	// Queue is how many messages may wait for Apply; what comes beyond is dropped and read from the registry's log later. 0: 8192.
	Queue int
}

// Follower keeps a view of the registry's objects and hands every change to a daemon. Make it with NewFollower, then call Run once; all other
// methods are safe at any time.
type Follower struct {
	cfg      FollowerConfig
	subjects subjects
	registry registryv1.ChangeServiceClient
	kinds    map[string]bool // empty: all
	view     *View
	metrics  followerMetrics
	started  time.Time

	applied atomic.Uint64
	synced  atomic.Bool
	fresh   atomic.Int64 // time from started until the view was last known to be complete

	// All below belongs to the goroutine of Run.

	epoch    string
	revision uint64 // of the view; applied follows
	pending  []Change
	handed   time.Time // when Apply was last called

	need      need
	failures  int
	outage    obs.Outage // of the registry
	notBefore time.Time  // no question to the registry before
	connected bool       // to NATS
	heard     time.Time  // when the last bookmark came
	expected  expectation
	emptied   time.Time // when no message waited: whatever waits came later
	trusted   time.Time // until then a foreign epoch is known to be not the registry's
}

// need is what the follower has to ask the registry for.
type need int

const (
	nothing need = iota
	theLog
	aSnapshot
)

// expectation is the head of a bookmark that the view has not reached yet.
type expectation struct {
	head uint64    // 0: none
	at   time.Time // when the log was there at the earliest
	seen time.Time // when the bookmark was read
}

// NewFollower returns a follower that knows nothing yet.
func NewFollower(cfg FollowerConfig) (*Follower, error) {
	names, err := newSubjects(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	cfg.BookmarkEvery = cmp.Or(cfg.BookmarkEvery, 2*time.Second)
	cfg.IdleEvery = cmp.Or(cfg.IdleEvery, 100*time.Millisecond)
	cfg.Jitter = cmp.Or(cfg.Jitter, time.Second)
	cfg.RetryMax = cmp.Or(cfg.RetryMax, 5*time.Second)
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, 10*time.Second)
	cfg.StaleAfter = cmp.Or(cfg.StaleAfter, 30*time.Second)
	cfg.Queue = cmp.Or(cfg.Queue, 8192)
	f := &Follower{
		cfg: cfg, subjects: names, registry: registryv1.NewChangeServiceClient(cfg.Registry),
		kinds: map[string]bool{}, view: newView(cfg.VersionsOnly), started: time.Now(), need: aSnapshot,
		outage: obs.Outage{
			Log: cfg.Log, Down: "changes cannot be read from the registry", Up: "registry answers again", Tolerate: toleratedOutage,
		},
	}
	for _, name := range cfg.Kinds {
		if kind, ok := object.KindNamed(name); !ok || kind.Name != name {
			return nil, fmt.Errorf("follow kind %q: there is no such kind", name)
		}
		f.kinds[name] = true
	}
	f.metrics = newFollowerMetrics(cfg.Metrics, f)
	f.report(errNoSnapshot)
	return f, nil
}

// Revision returns the revision up to which everything is applied; 0 before the first snapshot.
func (f *Follower) Revision() uint64 { return f.applied.Load() }

// Synced says whether the first snapshot has been applied.
func (f *Follower) Synced() bool { return f.synced.Load() }

// Age returns the time since the view was last known to be complete; since the follower was made, if it never was. While all is well it stays
// below about two bookmark periods.
func (f *Follower) Age() time.Duration {
	return time.Since(f.started) - time.Duration(f.fresh.Load())
}

// View returns the objects of the followed kinds.
func (f *Follower) View() *View { return f.view }

// Run follows until ctx is done, and returns nil then, or the error of Apply. The registry or NATS being away is waited out; the view stays.
func (f *Follower) Run(ctx context.Context) error {
	link, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer link.close()
	ticker := time.NewTicker(f.cfg.IdleEvery)
	defer ticker.Stop()
	if err := f.ask(ctx, aSnapshot); err != nil {
		return f.end(ctx, err)
	}
	for {
		if len(link.messages) == 0 {
			f.emptied = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case m := <-link.messages:
			err = f.drain(ctx, m, link.messages)
		case status := <-link.status:
			f.connected = status == nats.CONNECTED
		case <-ticker.C:
			err = f.tick(ctx)
		}
		if err != nil {
			return f.end(ctx, err)
		}
	}
}

// end tells the end of ctx, which is no error, from a refusal of Apply.
func (f *Follower) end(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// tick does what is due without a message.
func (f *Follower) tick(ctx context.Context) error {
	now := time.Now()
	if due := f.due(now); due != nothing {
		if err := f.ask(ctx, due); err != nil {
			return err
		}
	}
	if f.revision > f.applied.Load() && now.Sub(f.handed) >= f.cfg.IdleEvery {
		if err := f.hand(ctx); err != nil {
			return err
		}
	}
	f.judge()
	return nil
}

// due returns what to ask the registry for at this time: what is needed, or the log when nothing has been heard for too long. Where it is known
// that nothing can be heard, one period is long enough.
func (f *Follower) due(now time.Time) need {
	if now.Before(f.notBefore) {
		return nothing
	}
	if f.need != nothing {
		return f.need
	}
	silence := 3 * f.cfg.BookmarkEvery
	if !f.connected {
		silence = f.cfg.BookmarkEvery
	}
	if now.Sub(f.heard) >= silence {
		return theLog
	}
	return nothing
}

// hand gives Apply what is pending.
func (f *Follower) hand(ctx context.Context) error {
	batch, revision := f.pending, f.revision
	f.pending, f.handed = nil, time.Now()
	ctx, done := f.cfg.Tracer.Continue(ctx, "apply", traceparents(batch))
	err := f.cfg.Apply(ctx, batch, revision)
	if done(err); err != nil {
		return fmt.Errorf("apply revision %d: %w", revision, err)
	}
	f.applied.Store(revision)
	return nil
}

// traceparents lists those of a batch; nearly always there are none.
func traceparents(batch []Change) []string {
	var all []string
	for i := range batch {
		if batch[i].Traceparent != "" {
			all = append(all, batch[i].Traceparent)
		}
	}
	return all
}

// moved notes that the view is at a revision, and whether that meets what a bookmark promised.
func (f *Follower) moved(revision uint64) {
	f.revision = revision
	if f.expected.head != 0 && revision >= f.expected.head {
		f.completeAt(f.expected.at)
		f.expected = expectation{}
	}
}

// completeAt notes that the view has all that there was at a time.
func (f *Follower) completeAt(at time.Time) {
	if since := int64(at.Sub(f.started)); since > f.fresh.Load() {
		f.fresh.Store(since)
	}
}

var errNoSnapshot = errors.New("no snapshot from the registry yet")

// judge tells health how things are.
func (f *Follower) judge() {
	switch age := f.Age(); {
	case !f.synced.Load():
		f.report(errNoSnapshot)
	case age > f.cfg.StaleAfter:
		f.report(fmt.Errorf("the view is stale: nothing certain for more than %s", f.cfg.StaleAfter))
	default:
		f.report(nil)
	}
}

func (f *Follower) report(err error) {
	if f.cfg.Health != nil {
		f.cfg.Health.Set(HealthCheck, err)
	}
}

// jitter waits a random while, unless only a few revisions are missing.
func (f *Follower) jitter(ctx context.Context, missing uint64) {
	if missing > 3 {
		app.Pause(ctx, rand.N(f.cfg.Jitter))
	}
}

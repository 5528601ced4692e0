package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// HealthCheck is the name under which followers report to the health registry.
const HealthCheck = "changes"

// FollowerConfig is the configuration of a follower.
type FollowerConfig struct {
	// Registry serves the snapshots and the log. It must be given.
	Registry grpc.ClientConnInterface
	// NATS delivers changes as they happen. It need not be connected yet. If it is nil, the
	// follower reads the registry's log every BookmarkEvery.
	NATS *nats.Conn
	// Prefix is the prefix of all subjects. The default is DefaultPrefix.
	Prefix string
	// Kinds are the kinds to follow, such as "Service". The default is all kinds.
	Kinds []string
	// Keep reports whether the follower keeps an object. Other objects are never in the view nor
	// passed to Apply, and use no memory after they were read. If Keep starts to return false for
	// an object, the object is passed to Apply as deleted. The result may depend only on the
	// object. If Keep is nil, all objects are kept.
	Keep func(object.Object) bool
	// Node is set if the follower keeps only the pods of this node. Then it does not read the contents of
	// other nodes' pods, which the registry would refuse.
	Node string
	// Trim removes the parts of an object that the daemon does not need. The follower calls it once
	// for each object that it has read and keeps, before it stores the object and compares it with
	// the stored one. Trim may modify the object until it returns; after that the object never
	// changes. If Trim is nil, nothing is removed.
	Trim func(object.Object)
	// VersionsOnly is for daemons that store the contents of objects themselves. The view, and Old
	// in changes, then hold only the version of each object: namespace, name, uid and resource
	// version.
	VersionsOnly bool
	// Revocations is the process's list of denied certificates. If it is not nil, the follower also
	// follows the kind Revocation and keeps the list up to date. These objects are not passed to
	// Keep, Trim and Apply.
	Revocations *identity.DenyList
	// Guard catches panics of Keep and Trim: the object then stays in the view as it was. The daemon applies its
	// objects under the same guard, by Each.
	Guard *guard.Guard
	// Log must be given.
	Log *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Health receives the state of the view: missing, stale or current. It may be nil.
	Health *health.Registry
	// Tracer continues the traces of changes: the context of Apply belongs to the trace of the
	// first change. If it is nil, nothing is traced.
	Tracer *tracing.Tracer
	// Apply receives all changes in order, as many at once as are available, from one goroutine.
	// The first call has the whole snapshot, which may be empty. Later calls have no changes if
	// only other kinds changed, or if a new snapshot equals the view. Such a call only raises
	// revision.
	//
	// After Apply has returned nil, everything up to revision counts as applied. An error from
	// Apply ends Run, so Apply itself must retry temporary failures. Apply may keep the slice, but the
	// objects in it are shared.
	Apply func(ctx context.Context, changes []Change, revision uint64) error

	// BookmarkEvery is the time between two bookmarks of the relay; 0 means 2 s. After three
	// periods without a bookmark the follower asks the registry instead.
	BookmarkEvery time.Duration
	// IdleEvery is the shortest time between two calls of Apply without changes; 0 means 100 ms.
	IdleEvery time.Duration
	// Jitter is the longest random delay before the follower asks for more than three missing
	// revisions, so that a thousand followers that lost the same revisions do not ask at once; 0
	// means 1 s.
	Jitter time.Duration
	// RetryMax is the longest pause between two requests to a registry that does not answer; 0
	// means 5 s.
	RetryMax time.Duration
	// CallTimeout is the timeout of a request to the registry, or of one batch of a snapshot; 0
	// means 10 s.
	CallTimeout time.Duration
	// StaleAfter is the age from which health reports the view as stale; 0 means 30 s. If the
	// registry does not verify the changes from NATS for so long, the follower takes no more of them.
	StaleAfter time.Duration
	// VerifyEvery is the time between two comparisons of the changes from NATS with the registry's
	// log, up to a fifth longer or shorter at random; 0 means 5 s. A forged change stays in the view
	// for at most so long.
	VerifyEvery time.Duration
	// DistrustFor is the time for which the follower reads the registry's log instead of the messages
	// from NATS after it found that one was forged; 0 means 5 min.
	DistrustFor time.Duration
	// Queue is the number of messages that may wait for Apply; 0 means 8192. Messages that do not
	// fit are dropped, and their changes are read from the registry's log later.
	Queue int
}

// Follower keeps a view of the registry's objects and passes every change to a daemon. Make it with
// NewFollower and call Run once. All other methods are safe for concurrent use.
type Follower struct {
	cfg      FollowerConfig
	subjects Subjects
	registry registryv1.ChangeServiceClient
	kinds    map[string]bool // empty means all
	view     *View
	metrics  followerMetrics
	started  time.Time

	applied atomic.Uint64
	synced  atomic.Bool
	// logEpoch is the epoch of the log that the changes for Apply come from.
	logEpoch atomic.Pointer[string]
	// completeSince is the time from started until the view was last known to be complete.
	completeSince atomic.Int64
	comparisons   chan comparisonRequest // of Check and Resync

	// The fields below are used only by the goroutine of Run.

	epoch     string
	revision  uint64 // of the view; applied is set to it after Apply
	pending   []Change
	former    formerVersions
	lastApply time.Time // time of the last call of Apply

	need          need
	failures      int
	outage        obs.Outage // of requests to the registry
	nextRequestAt time.Time  // time of the next request to the registry, at the earliest
	connected     bool       // to NATS
	lastBookmark  time.Time  // time of the last bookmark
	expected      expectedHead
	// queueEmptyAt is when the queue was last seen empty. Every waiting message arrived after it.
	queueEmptyAt time.Time
	// epochTrustedUntil is the time until which the view's epoch counts as the registry's, so that messages
	// of other epochs are ignored.
	epochTrustedUntil time.Time

	unverified         unverified
	nextVerifyAt       time.Time
	verifyFailures     int
	verifyOutage       obs.Outage
	behind             toldHead  // a head that the view had not reached when it was told
	lastTold, longTold toldHead  // lastTold is replaced by a new head after StaleAfter, and becomes longTold
	distrustedUntil    time.Time // until then messages from NATS are ignored
	distrustReason     error
	// healing is set if the next snapshot replaces a view that may be wrong. The first requested snapshot
	// must not be older than minSnapshotRevision, so that the view does not go back behind a correct
	// revision. Later snapshots may be older, because a log that was set back never reaches the revision.
	healing             bool
	minSnapshotRevision uint64
	corrected           int // number of objects in which the view was wrong
}

// need is the request that the follower has to send to the registry.
type need int

const (
	nothing need = iota
	theLog
	aSnapshot
)

// expectedHead is the head in a bookmark that the view has not reached yet.
type expectedHead struct {
	head uint64 // 0 means that there is none
	// at is the earliest time at which the log had this head.
	at   time.Time
	seen time.Time // time when the bookmark was read
}

// NewFollower returns a follower with an empty view.
func NewFollower(cfg FollowerConfig) (*Follower, error) {
	names, err := NewSubjects(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	cfg.BookmarkEvery = cmp.Or(cfg.BookmarkEvery, 2*time.Second)
	cfg.IdleEvery = cmp.Or(cfg.IdleEvery, 100*time.Millisecond)
	cfg.Jitter = cmp.Or(cfg.Jitter, time.Second)
	cfg.RetryMax = cmp.Or(cfg.RetryMax, 5*time.Second)
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, 10*time.Second)
	cfg.StaleAfter = cmp.Or(cfg.StaleAfter, 30*time.Second)
	cfg.VerifyEvery = cmp.Or(cfg.VerifyEvery, 5*time.Second)
	cfg.DistrustFor = cmp.Or(cfg.DistrustFor, 5*time.Minute)
	cfg.Queue = cmp.Or(cfg.Queue, 8192)
	if cfg.Revocations != nil && len(cfg.Kinds) > 0 {
		cfg.Kinds = append(slices.Clone(cfg.Kinds), revocationKind)
	}
	f := &Follower{
		cfg: cfg, subjects: names, registry: registryv1.NewChangeServiceClient(cfg.Registry),
		kinds: map[string]bool{}, view: newView(cfg.VersionsOnly), started: time.Now(), need: aSnapshot, former: formerVersions{},
		outage: obs.Outage{
			Log: cfg.Log, Down: "changes cannot be read from the registry", Up: "registry answers again", Tolerate: toleratedOutage,
		},
		comparisons: make(chan comparisonRequest), unverified: newUnverified(), nextVerifyAt: time.Now().Add(rand.N(cfg.VerifyEvery)), // #nosec G404 -- a pause is no secret
		verifyOutage: obs.Outage{
			Log: cfg.Log, Down: "changes from NATS cannot be verified", Up: "changes from NATS are verified again", Tolerate: toleratedOutage,
		},
	}
	for _, name := range cfg.Kinds {
		if object.New(name) == nil {
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

// WaitFor waits until a revision has been applied. It returns false if ctx is done first.
func (f *Follower) WaitFor(ctx context.Context, revision uint64) bool {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for f.Revision() < revision {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// Epoch returns the epoch of the registry's log to which the revisions belong; "" before the first
// snapshot. During a call of Apply it is the epoch of that call.
func (f *Follower) Epoch() string {
	if epoch := f.logEpoch.Load(); epoch != nil {
		return *epoch
	}
	return ""
}

// Synced reports whether the first snapshot has been applied.
func (f *Follower) Synced() bool { return f.synced.Load() }

// Age returns the time since the view was last known to be complete, or since the follower was made
// if it never was. Normally it stays below about two bookmark periods.
func (f *Follower) Age() time.Duration {
	return time.Since(f.started) - time.Duration(f.completeSince.Load())
}

// View returns the objects of the followed kinds.
func (f *Follower) View() *View { return f.view }

// Run follows the registry until ctx is done, and then returns nil. It returns early only with an
// error from Apply or from the subscription. While the registry or NATS is away, Run keeps the view
// and retries.
func (f *Follower) Run(ctx context.Context) error {
	link, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer link.close()
	ticker := time.NewTicker(f.cfg.IdleEvery)
	defer ticker.Stop()
	if err := f.ask(ctx, aSnapshot); err != nil {
		return f.runError(ctx, err)
	}
	for {
		if len(link.messages) == 0 {
			f.queueEmptyAt = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case m := <-link.messages:
			err = f.drain(ctx, m, link.messages)
		case status := <-link.status:
			f.connected = status == nats.CONNECTED
		case request := <-f.comparisons:
			err = f.answer(ctx, request)
		case <-ticker.C:
			err = f.tick(ctx)
		}
		if err != nil {
			return f.runError(ctx, err)
		}
	}
}

// runError returns nil if ctx is done, because that is the normal end of Run, and err otherwise.
func (f *Follower) runError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// tick does the work that is due without a message: comparisons with and requests to the registry,
// idle calls of Apply, and the health report.
func (f *Follower) tick(ctx context.Context) error {
	now := time.Now()
	if f.verifyDue(now) {
		if err := f.verify(ctx); err != nil {
			return err
		}
	}
	if due := f.nextRequest(now); due != nothing {
		if err := f.ask(ctx, due); err != nil {
			return err
		}
	}
	if f.revision > f.applied.Load() && now.Sub(f.lastApply) >= f.cfg.IdleEvery {
		if err := f.callApply(ctx); err != nil {
			return err
		}
	}
	f.reportHealth()
	return nil
}

// nextRequest returns the request that is due now: the needed one, or the log after three bookmark
// periods without a bookmark. If NATS is not connected no bookmark can come, so one period is enough.
// A follower that ignores NATS reads the log every period, and one that lacks a head that the
// registry has told reads it at once.
func (f *Follower) nextRequest(now time.Time) need {
	if now.Before(f.nextRequestAt) {
		return nothing
	}
	if f.need != nothing {
		return f.need
	}
	if f.ignoresNATS(now) || f.lacksTold(now) {
		return theLog
	}
	silence := 3 * f.cfg.BookmarkEvery
	if !f.connected {
		silence = f.cfg.BookmarkEvery
	}
	if now.Sub(f.lastBookmark) >= silence {
		return theLog
	}
	return nothing
}

// callApply passes the pending changes to Apply.
func (f *Follower) callApply(ctx context.Context) error {
	batch, revision := f.takeRevocations(f.pending), f.revision
	f.pending, f.lastApply = nil, time.Now()
	ctx, done := f.cfg.Tracer.Continue(ctx, "apply", traceparents(batch))
	err := f.cfg.Apply(ctx, batch, revision)
	if done(err); err != nil {
		return fmt.Errorf("apply revision %d: %w", revision, err)
	}
	f.former.note(f.cfg.Guard, batch)
	f.applied.Store(revision)
	return nil
}

// traceparents returns the traceparents of a batch. Most batches have none.
func traceparents(batch []Change) []string {
	var all []string
	for i := range batch {
		if batch[i].Traceparent != "" {
			all = append(all, batch[i].Traceparent)
		}
	}
	return all
}

// setRevision records that the view is at a revision, and whether the view has thereby reached the head
// of the expected bookmark.
func (f *Follower) setRevision(revision uint64) {
	f.revision = revision
	if f.expected.head != 0 && revision >= f.expected.head {
		f.markComplete(f.expected.at)
		f.expected = expectedHead{}
	}
}

// markComplete records that at the given time the view held everything in the log.
func (f *Follower) markComplete(at time.Time) {
	if since := int64(at.Sub(f.started)); since > f.completeSince.Load() {
		f.completeSince.Store(since)
	}
}

var errNoSnapshot = errors.New("no snapshot from the registry yet")

// reportHealth reports the state of the view to health.
func (f *Follower) reportHealth() {
	switch age := f.Age(); {
	case !f.synced.Load():
		f.report(errNoSnapshot)
	case age > f.cfg.StaleAfter:
		f.report(fmt.Errorf("the view is stale: nothing certain for more than %s", f.cfg.StaleAfter))
	default:
		f.report(nil)
	}
	if f.distrustReason != nil && !time.Now().Before(f.distrustedUntil) {
		f.distrustReason = nil
		f.warn(nil)
	}
}

// warn reports a fault that does not make the daemon unready.
func (f *Follower) warn(err error) {
	if f.cfg.Health != nil {
		f.cfg.Health.Warn(HealthCheck, err)
	}
}

func (f *Follower) report(err error) {
	if f.cfg.Health != nil {
		f.cfg.Health.Set(HealthCheck, err)
	}
}

// jitter waits for a random time of at most Jitter if more than three revisions are missing.
func (f *Follower) jitter(ctx context.Context, missing uint64) {
	if missing > 3 {
		app.Pause(ctx, rand.N(f.cfg.Jitter)) // #nosec G404 -- a pause is no secret
	}
}

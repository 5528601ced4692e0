package nodeagent

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/healthcheck"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/nodeagent/view"
	"portolan.dev/services/kit/tracing"
)

// stuckAfter is how long changes may wait before the node counts as unhealthy.
const stuckAfter = time.Minute

// syncer brings the data plane to the plan of the view. Its goroutine (run) is woken by changes.
type syncer struct {
	view    *view.View
	plane   dataplane.Plane
	checks  *healthcheck.Server
	events  *recorder
	metrics *metrics
	log     *slog.Logger
	wake    chan struct{}
	ready   func() // called when the view has been programmed for the first time
	// progress receives a token when there is news for the heartbeat.
	progress chan struct{}

	// mu guards the fields for work that waits to be planned.
	mu      sync.Mutex
	all     bool // plan every service, not only the changed ones
	facts   plan.Facts
	sources plan.Sources
	known   bool         // a view has been received
	waiting time.Time    // when the oldest waiting or running work began to wait; zero: there is none
	cause   tracing.Span // of the first waiting change that is traced

	// tableMu guards the plan and its results. It is held while the data plane works, so readers
	// wait.
	tableMu sync.Mutex
	table   *plan.Table
	failing failures
	told    map[plan.ServiceName]string    // problems that were reported by an event
	trigger map[plan.ServiceName]time.Time // newest trigger that was measured
	applied uint64
	// nodeFailure is the last failure of the node that was reported; empty: it is over.
	nodeFailure string
	adopted     bool // the state of an earlier agent in the data plane has been reconciled
	reached     reached
	// live is set if the view is from the registry, not from the disk.
	live    atomic.Bool
	starved map[plan.ServiceName]int // number of virtual servers without local backends
	// conflicts are the services with a frontend that another service owns.
	conflicts map[plan.ServiceName]struct{}
	// repaired is the number of differences that audits have found.
	repaired uint64

	core     atomic.Pointer[core] // stored by stand
	ended    atomic.Int64         // end of the last sync, in ns since the epoch; 0: there was none
	troubles troubles
}

func newSyncer(v *view.View, plane dataplane.Plane, events *recorder, m *metrics, log *slog.Logger, ready func()) *syncer {
	s := &syncer{
		view: v, plane: plane, events: events, metrics: m, log: log, ready: ready, wake: make(chan struct{}, 1), progress: make(chan struct{}, 1),
		table: plan.NewTable(), failing: failures{}, conflicts: map[plan.ServiceName]struct{}{},
		told: map[plan.ServiceName]string{}, trigger: map[plan.ServiceName]time.Time{}, starved: map[plan.ServiceName]int{},
	}
	s.core.Store(&core{})
	return s
}

// changed requests a sync for the changes in the view, in the trace of their cause.
func (s *syncer) changed(cause tracing.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cause.Recorded() {
		s.cause = cause
	}
	s.known = true
	s.poke()
}

// setFacts changes the facts and sources that plans are built from.
func (s *syncer) setFacts(facts plan.Facts, sources plan.Sources) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.facts.Equal(&facts) && s.sources.Equal(&sources) {
		return
	}
	s.all = s.all || !s.facts.Equal(&facts)
	s.facts, s.sources = facts, sources
	s.poke()
}

func (s *syncer) poke() {
	if s.waiting.IsZero() {
		s.waiting = time.Now()
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// queueAge returns how long changes have been waiting or are being programmed; 0: there are none.
func (s *syncer) queueAge() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.IsZero() {
		return 0
	}
	return time.Since(s.waiting)
}

// healthy reports whether changes reach the data plane: none has waited for long, and the shared
// rules are in force. A single service that fails does not make the node unhealthy.
func (s *syncer) healthy() bool {
	c := s.core.Load()
	return s.queueAge() < stuckAfter && (c.shared == "" || time.Since(c.since) < stuckAfter)
}

// lastSync returns when a sync last ended; zero: there was none.
func (s *syncer) lastSync() time.Time {
	if at := s.ended.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// run plans and programs changed services, and retries failures, until ctx is done.
func (s *syncer) run(ctx context.Context) error {
	s.reached.revision = s.plane.Reached()
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			s.syncUnlessHeld(ctx)
		case <-retry.C:
			if s.reached.revision != 0 {
				s.syncUnlessHeld(ctx)
			}
			s.retry(ctx)
		}
		retry.Reset(min(s.nextRetry(), s.reached.left()))
	}
}

// syncUnlessHeld plans and programs the waiting changes, unless the view is older than the revision
// that an earlier agent has put in force.
func (s *syncer) syncUnlessHeld(ctx context.Context) {
	if revision := s.reached.revision; s.reached.holds(s.view.Revision(), s.live.Load()) {
		s.log.Info("waiting for the registry: the view is older than what is in force", "view", s.view.Revision(), "in_force", revision)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting = time.Time{} // nothing is stuck
		return
	}
	s.sync(ctx)
}

func (s *syncer) nextRetry() time.Duration {
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	keys, next := s.failing.due(time.Now())
	switch {
	case len(keys) > 0:
		return 0
	case next.IsZero():
		return time.Hour
	}
	return time.Until(next)
}

// batch is the input of one sync. All of it is of the same revision, even if the view changes
// during the sync.
type batch struct {
	view.Batch
	names   []plan.ServiceName // sorted names of Services
	facts   plan.Facts
	sources plan.Sources
	known   bool
	cause   tracing.Span
}

// take takes all waiting work.
func (s *syncer) take() batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := batch{Batch: s.view.Take(s.all), facts: s.facts, sources: s.sources, known: s.known, cause: s.cause}
	b.names = slices.SortedFunc(maps.Keys(b.Services), plan.ServiceName.Compare)
	s.all, s.cause = false, tracing.Span{}
	return b
}

// rest records the end of a batch. Changes that came during the batch wait from now on.
func (s *syncer) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = time.Time{}
	if s.all || s.view.Behind() {
		s.waiting = time.Now()
	}
}

// sync plans and programs one batch.
func (s *syncer) sync(ctx context.Context) {
	b := s.take()
	defer s.rest()
	ctx, span := tracing.Start(b.cause.In(ctx), "sync")
	defer span.End(nil)
	began := time.Now()
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	s.table.SetSources(b.sources)
	s.plane.Reach(b.Revision)
	touched := map[plan.ServiceName]bool{}
	for _, part := range b.parts() {
		_, planning := tracing.Start(ctx, "plan")
		for _, name := range part {
			s.replan(name, b.Services[name], &b.facts, touched)
		}
		planning.End(nil)
		s.program(ctx, s.withReplaced(s.table.Changes()))
	}
	for name := range touched {
		s.tellConflicts(name)
	}
	if b.known {
		s.adopt(ctx)
		s.advance(b.Revision)
	}
	s.stand()
	s.metrics.synced(began)
	s.ended.Store(time.Now().UnixNano())
	s.measure(b.Services)
}

// replan rebuilds the plan of one service, and adds to touched the services with conflicts that may
// change: the service itself, and those that claim its former or new frontends.
func (s *syncer) replan(
	name plan.ServiceName, svc view.Service, facts *plan.Facts, touched map[plan.ServiceName]bool,
) {
	for _, rival := range s.table.Rivals(name) {
		touched[rival] = true
	}
	s.plan(name, svc, facts)
	touched[name] = true
	for _, rival := range s.table.Rivals(name) {
		touched[rival] = true
	}
}

// withReplaced adds to the changes the removal of servers of an earlier agent that are at the same
// frontends for other audiences, and are not planned any more. This way, the audiences of a
// frontend change in one step.
func (s *syncer) withReplaced(c plan.Changes) plan.Changes {
	if s.adopted {
		return c
	}
	seen := make(map[plan.Key]bool, len(c.Servers))
	for _, w := range c.Servers {
		seen[w.Key] = true
	}
	for _, w := range c.Servers {
		for _, a := range []plan.Audience{plan.Anyone, plan.Internal, plan.External} {
			key := plan.Key{Frontend: w.Key.Frontend, Audience: a}
			if !seen[key] && s.table.Server(key) == nil && s.plane.Programmed(key) != nil {
				seen[key] = true
				c.Servers = append(c.Servers, plan.Wanted{Key: key})
			}
		}
	}
	slices.SortFunc(c.Servers, func(a, b plan.Wanted) int { return a.Key.Compare(b.Key) })
	return c
}

// adopt removes the state of an earlier agent from the data plane that is not in the plan, once the
// view is from the registry. A view from the disk may be older than the state in force.
func (s *syncer) adopt(ctx context.Context) {
	if s.adopted || !s.live.Load() {
		return
	}
	have, err := s.plane.State(ctx)
	s.readBack(ctx, err)
	if err != nil {
		return
	}
	s.adopted = true
	var gone plan.Changes
	for key := range have.Servers {
		if s.table.Server(key) == nil {
			gone.Servers = append(gone.Servers, plan.Wanted{Key: key})
		}
	}
	s.program(ctx, gone)
	// Return the memory that reading the snapshot and the kernel took. From now on there is too
	// little garbage to cause a collection soon.
	debug.FreeOSMemory()
}

// plan builds the plan of one service.
func (s *syncer) plan(name plan.ServiceName, svc view.Service, facts *plan.Facts) {
	res := plan.Build(svc.Object, svc.Slices, facts)
	if svc.Object == nil {
		delete(s.told, name)
		delete(s.trigger, name)
	} else if len(res.Problems) > 0 {
		s.tell(name, svc.Object, reasonInvalid, res.Problems)
	}
	s.checks.Set(name, res.HealthCheck)
	s.starve(name, res.Servers)
	s.table.Set(name, created(svc.Object), res.Servers)
}

func created(svc *corev1.Service) int64 {
	at := svc.GetMetadata().GetCreationTimestamp()
	return at.GetSeconds()*1e9 + int64(at.GetNanos())
}

// starve counts the virtual servers that drop external traffic.
func (s *syncer) starve(name plan.ServiceName, servers []*plan.VirtualServer) {
	n := 0
	for _, v := range servers {
		if v.WithoutBackends == plan.Drop && len(v.Reals) == 0 {
			n++
		}
	}
	s.metrics.noLocal.Add(float64(n - s.starved[name]))
	if n == 0 {
		delete(s.starved, name)
		return
	}
	s.starved[name] = n
}

// program puts changes in force and records the failures.
func (s *syncer) program(ctx context.Context, c plan.Changes) {
	now := time.Now()
	ctx, span := tracing.Start(ctx, "program")
	steps, failed := dataplane.Reconcile(ctx, s.plane, c)
	span.Count("portolan.steps", len(steps))
	span.Count("portolan.failures", len(failed))
	span.End(nil)
	for _, step := range steps {
		s.metrics.steps.WithLabelValues(step.Op.String()).Inc()
	}
	s.succeeded(c, failed)
	for _, f := range failed {
		s.metrics.failures.WithLabelValues(f.Step.Op.String()).Inc()
		if ctx.Err() == nil {
			s.failed(f, now)
		}
	}
	if ctx.Err() == nil {
		s.reportNode(failed)
	}
	servers, reals := s.table.Counts()
	s.metrics.servers.Set(float64(servers))
	s.metrics.reals.Set(float64(reals))
}

// succeeded ends the failures of the changed keys, except those that failed again.
func (s *syncer) succeeded(c plan.Changes, failed []dataplane.Failure) {
	again := make(map[plan.Key]bool, len(failed))
	for _, f := range failed {
		again[f.Step.Key] = true
	}
	if c.Sources != nil && !again[sharedRules] {
		delete(s.failing, sharedRules)
	}
	for _, w := range c.Servers {
		if !again[w.Key] {
			delete(s.failing, w.Key)
		}
	}
}

// advance records that every change up to a revision was passed to the data plane.
func (s *syncer) advance(revision uint64) {
	s.applied = revision
	s.ready()
	s.metrics.revision.Set(float64(revision))
}

// sharedRules is the key of steps that concern all services.
var sharedRules plan.Key

// failed records a failure and writes an event about the service, or about the node if the failure
// belongs to no service.
func (s *syncer) failed(f dataplane.Failure, now time.Time) {
	server := s.table.Server(f.Step.Key)
	var service plan.ServiceName
	if server != nil {
		service = server.Service
	}
	it, news := s.failing.failed(f, service, now)
	if _, ofNode := errors.AsType[*dataplane.NodeError](f.Err); ofNode || !news {
		return
	}
	reason := reasonFailedToProgram
	switch {
	case errors.Is(f.Err, dataplane.ErrNotSupported):
		reason = reasonNotSupported
	case s.plane.Name() == userspaceMode && server != nil:
		reason = reasonFailedToListen
	}
	message := it.step.String() + ": " + it.err.Error()
	if it.remedy != "" {
		message += "; " + it.remedy
	}
	if svc, _ := s.view.Service(service); svc != nil {
		s.events.warn(svc, reason, message)
		return
	}
	s.events.warnNode(reason, message)
}

// reportNode reports a failure of the node once, even if it stops the steps of many services. If
// failed contains none, the failure is over.
func (s *syncer) reportNode(failed []dataplane.Failure) {
	var message string
	for _, f := range failed {
		if of, ok := errors.AsType[*dataplane.NodeError](f.Err); ok {
			message = of.Error() + "; " + of.Remedy
			break
		}
	}
	if message != "" && message != s.nodeFailure {
		s.events.warnNode(reasonFailedToProgram, message)
	}
	s.nodeFailure = message
}

// retry retries the failures that are due.
func (s *syncer) retry(ctx context.Context) {
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	keys, _ := s.failing.due(time.Now())
	if len(keys) > 0 {
		s.program(ctx, s.wanted(keys))
	}
	s.stand()
}

// wanted returns the planned servers at keys.
func (s *syncer) wanted(keys []plan.Key) plan.Changes {
	var c plan.Changes
	for _, key := range keys {
		if key == sharedRules {
			sources := s.table.Sources()
			c.Sources = &sources
			continue
		}
		c.Servers = append(c.Servers, plan.Wanted{Key: key, Server: s.table.Server(key)})
	}
	return c
}

package syncloop

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/internal/view"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/kit/wake"
	"portolan.dev/services/object"
)

// unhealthyAfter is the time for which changes may wait before the node counts as unhealthy.
const unhealthyAfter = time.Minute

// Recorder writes events. It does not block.
type Recorder interface {
	WarnService(svc *corev1.Service, reason, message string)
	WarnNode(reason, message string)
}

// HealthChecks are the health-check ports of services.
type HealthChecks interface {
	// Set sets the health-check port of a service, or removes it if want is nil.
	Set(service object.Name, want *plan.HealthCheck)
}

// Routes advertise the addresses of the frontends that the data plane serves. Programmed does not block.
type Routes interface {
	// Programmed takes the frontends that were passed to the data plane. failed has the frontends that
	// the data plane does not serve as planned.
	Programmed(frontends []plan.FrontendServers, failed map[plan.Frontend]bool)
}

// Options are the parts that a Syncer works with. All fields are required.
type Options struct {
	View  *view.View
	Plane dataplane.Plane
	// Listens is true if the plane serves frontends by sockets of the node. Such a plane does not
	// serve a port that another program listens on.
	Listens bool
	Checks  HealthChecks
	Routes  Routes
	Events  Recorder
	// Guard catches panics of the work for one service.
	Guard   *guard.Guard
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Programmed is called after every sync of a view.
	Programmed func()
}

// Syncer brings the data plane to the plan of the view. Its goroutine (Run) is woken by changes.
type Syncer struct {
	view       *view.View
	plane      dataplane.Plane
	listens    bool // see Options
	checks     HealthChecks
	routes     Routes
	events     Recorder
	guard      *guard.Guard
	metrics    *metrics
	log        *slog.Logger
	programmed func() // see Options
	wake       wake.Signal
	// heartbeatDue receives a token when the next heartbeat has news.
	heartbeatDue wake.Signal

	// mu guards the fields for work that waits to be planned.
	mu           sync.Mutex
	all          bool // plan every service, not only the changed ones
	facts        plan.Facts
	sources      plan.Sources
	haveView     bool         // a view has been received
	waitingSince time.Time    // when the oldest waiting or running work began to wait; zero: there is none
	cause        tracing.Span // of the first waiting change that is traced

	// tableMu guards the plan and its results. It is held while the data plane works, so readers
	// wait.
	tableMu     sync.Mutex
	table       *plan.Table
	failing     failures
	reported    map[object.Name]string    // problems that were reported by an event
	lastTrigger map[object.Name]time.Time // newest trigger that was measured
	applied     uint64
	// nodeError is the failure of the node that was reported last, or "" once it is over.
	nodeError string
	adopted   bool // the state of an earlier agent in the data plane has been reconciled
	reached   reached
	// live is set if the view is from the registry, not from the disk.
	live     atomic.Bool
	dropping map[object.Name]int // number of virtual servers without local backends
	// conflicts are the services with a frontend that another service owns.
	conflicts map[object.Name]struct{}
	// repaired is the number of differences that audits have found.
	repaired  uint64
	lastAudit time.Time // end of the last audit that could read the state in force; zero: there was none

	tableProgress atomic.Pointer[tableProgress] // stored by storeProgress
	lastSyncEnd   atomic.Int64                  // end of the last sync, in ns since the epoch; 0: there was none
	others        otherFailures
}

// New returns a Syncer. It does nothing before Run.
func New(opts Options) *Syncer {
	s := &Syncer{
		view: opts.View, plane: opts.Plane, listens: opts.Listens, checks: opts.Checks, routes: opts.Routes, events: opts.Events, guard: opts.Guard,
		log: opts.Log, programmed: opts.Programmed, wake: wake.New(), heartbeatDue: wake.New(),
		table: plan.NewTable(), failing: failures{}, conflicts: map[object.Name]struct{}{},
		reported: map[object.Name]string{}, lastTrigger: map[object.Name]time.Time{}, dropping: map[object.Name]int{},
	}
	s.metrics = newMetrics(opts.Metrics, s.QueueAge)
	s.tableProgress.Store(&tableProgress{})
	return s
}

// SetLive records that the view is from the registry, not from the disk.
func (s *Syncer) SetLive() { s.live.Store(true) }

// Changed requests a sync for the changes in the view, in the trace of their cause.
func (s *Syncer) Changed(cause tracing.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cause.Recorded() {
		s.cause = cause
	}
	s.haveView = true
	s.notify()
}

// SetFacts changes the facts and sources that plans are built from.
func (s *Syncer) SetFacts(facts plan.Facts, sources plan.Sources) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.facts.Equal(&facts) && s.sources.Equal(&sources) {
		return
	}
	s.all = s.all || !s.facts.Equal(&facts)
	s.facts, s.sources = facts, sources
	s.notify()
}

func (s *Syncer) notify() {
	if s.waitingSince.IsZero() {
		s.waitingSince = time.Now()
	}
	s.wake.Send()
}

// QueueAge returns the time since the oldest change that is not programmed yet arrived, or 0 if all
// changes are programmed.
func (s *Syncer) QueueAge() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waitingSince.IsZero() {
		return 0
	}
	return time.Since(s.waitingSince)
}

// Healthy reports whether changes reach the data plane: none has waited for long, and the shared
// rules are in force. A single service that fails does not make the node unhealthy.
func (s *Syncer) Healthy() bool {
	c := s.tableProgress.Load()
	return s.QueueAge() < unhealthyAfter && (c.shared == "" || time.Since(c.since) < unhealthyAfter)
}

// LastSync returns when a sync last ended; zero: there was none.
func (s *Syncer) LastSync() time.Time {
	if at := s.lastSyncEnd.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Run plans and programs changed services, and retries failures, until ctx is done.
func (s *Syncer) Run(ctx context.Context) error {
	s.reached.revision = s.plane.Reached()
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			s.syncIfCurrent(ctx)
		case <-retry.C:
			if s.reached.revision != 0 {
				s.syncIfCurrent(ctx)
			}
			s.retry(ctx)
		}
		retry.Reset(min(s.nextRetry(), s.reached.remaining()))
	}
}

// syncIfCurrent plans and programs the waiting changes, unless the view is older than the revision
// that an earlier agent has put in force.
func (s *Syncer) syncIfCurrent(ctx context.Context) {
	if revision := s.reached.revision; s.reached.mustWait(s.view.Revision(), s.live.Load()) {
		s.log.Info("waiting for the registry: the view is older than what is in force", "view", s.view.Revision(), "in_force", revision)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waitingSince = time.Time{} // nothing is stuck
		return
	}
	s.sync(ctx)
}

func (s *Syncer) nextRetry() time.Duration {
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	keys, next := s.failing.dueRetries(time.Now())
	switch {
	case len(keys) > 0:
		return 0
	case next.IsZero():
		return time.Hour
	}
	return time.Until(next)
}

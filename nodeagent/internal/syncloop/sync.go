package syncloop

import (
	"context"
	"time"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/nodeagent/internal/view"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// sync plans and programs one batch.
func (s *Syncer) sync(ctx context.Context) {
	b := s.nextBatch()
	defer s.batchDone()
	ctx, span := tracing.Start(b.cause.ContextWith(ctx), "sync")
	defer span.End(nil)
	began := time.Now()
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	s.table.SetSources(b.sources)
	s.plane.Reach(b.Revision)
	touched := map[object.Name]bool{}
	for _, part := range b.parts() {
		_, planning := tracing.Start(ctx, "plan")
		for _, name := range part {
			s.guardedReplan(name, b.Services[name], &b.facts, touched)
		}
		planning.End(nil)
		s.program(ctx, s.table.Changes())
	}
	for name := range touched {
		s.guard.Run(stepConflicts, s.serviceOf(name), func() { s.reportConflicts(name) })
	}
	if b.haveView {
		s.adopt(ctx)
		s.advance(b.Revision)
	}
	s.storeProgress()
	s.metrics.observeSync(began)
	s.lastSyncEnd.Store(time.Now().UnixNano())
	s.measureLatency(b.Services)
}

// guardedReplan is replan under the guard. If it panics, the former plan of the service stays in force, and the service
// counts as failing until it is planned again.
func (s *Syncer) guardedReplan(name object.Name, svc view.Service, facts *plan.Facts, touched map[object.Name]bool) {
	err := s.guard.Do(stepPlan, s.serviceOf(name), func() error {
		s.replan(name, svc, facts, touched)
		return nil
	})
	s.others.set(otherFailure{operation: planService, service: name}, err, "change the service, or restart the agent, to try again")
}

// replan rebuilds the plan of one service, and adds to touched the services with conflicts that may
// change: the service itself, and those that claim its former or new frontends.
func (s *Syncer) replan(
	name object.Name, svc view.Service, facts *plan.Facts, touched map[object.Name]bool,
) {
	for _, rival := range s.table.Competitors(name) {
		touched[rival] = true
	}
	s.plan(name, svc, facts)
	touched[name] = true
	for _, rival := range s.table.Competitors(name) {
		touched[rival] = true
	}
}

// plan builds the plan of one service.
func (s *Syncer) plan(name object.Name, svc view.Service, facts *plan.Facts) {
	res := plan.Build(svc.Object, svc.Slices, facts)
	if svc.Object == nil {
		delete(s.reported, name)
		delete(s.lastTrigger, name)
	} else if len(res.Problems) > 0 {
		s.reportProblems(name, svc.Object, events.InvalidService, res.Problems)
	}
	s.checks.Set(name, res.HealthCheck)
	s.countDropping(name, res.Servers)
	s.table.Set(name, createdAt(svc.Object), res.Servers)
}

func createdAt(svc *corev1.Service) int64 {
	at := svc.GetMetadata().GetCreationTimestamp()
	return at.GetSeconds()*1e9 + int64(at.GetNanos())
}

// countDropping counts the virtual servers that drop external traffic.
func (s *Syncer) countDropping(name object.Name, servers []*plan.VirtualServer) {
	n := 0
	for _, v := range servers {
		if v.WithoutBackends == plan.Drop && len(v.Reals) == 0 {
			n++
		}
	}
	s.metrics.noLocal.Add(float64(n - s.dropping[name]))
	if n == 0 {
		delete(s.dropping, name)
		return
	}
	s.dropping[name] = n
}

// advance records that every change up to a revision was passed to the data plane.
func (s *Syncer) advance(revision uint64) {
	s.applied = revision
	s.programmed()
	s.metrics.revision.Set(float64(revision))
}

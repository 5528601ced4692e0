package syncloop

import (
	"context"
	"errors"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// program puts changes in force and records the failures.
func (s *Syncer) program(ctx context.Context, c plan.Changes) {
	now := time.Now()
	ctx, span := tracing.Start(ctx, "program")
	kept := s.affinityKept(c)
	failed := s.reconcile(ctx, c)
	span.Count("portolan.frontends", len(c.Frontends))
	span.Count("portolan.failures", len(failed))
	span.End(nil)
	s.metrics.programmed.Add(float64(len(c.Frontends)))
	s.metrics.failures.Add(float64(len(failed)))
	s.clearFailures(c, failed)
	for _, f := range failed {
		if ctx.Err() == nil {
			s.recordFailure(f, now)
		}
	}
	if ctx.Err() == nil {
		s.reportAffinity(kept, failed)
		s.reportNodeError(failed)
		s.routes.Programmed(c.Frontends, s.notServed(failed))
	}
	servers, reals := s.table.Counts()
	s.metrics.servers.Set(float64(servers))
	s.metrics.reals.Set(float64(reals))
}

// notServed returns the frontends of failures. A plane in the kernel serves a frontend without the
// part that it does not support, and the userspace plane does not serve it.
func (s *Syncer) notServed(failed []dataplane.Failure) map[plan.Frontend]bool {
	frontends := map[plan.Frontend]bool{}
	for _, f := range failed {
		if s.listens || !errors.Is(f.Err, dataplane.ErrNotSupported) {
			frontends[f.Frontend] = true
		}
	}
	return frontends
}

// clearFailures ends the failures of the changed frontends, except those that failed again.
func (s *Syncer) clearFailures(c plan.Changes, failed []dataplane.Failure) {
	again := make(map[plan.Frontend]bool, len(failed))
	for _, f := range failed {
		again[f.Frontend] = true
	}
	if c.Sources != nil && !again[dataplane.SharedRules] {
		delete(s.failing, dataplane.SharedRules)
	}
	for i := range c.Frontends {
		if at := c.Frontends[i].Frontend; !again[at] {
			delete(s.failing, at)
		}
	}
}

// recordFailure records a failure and writes an event about the service, or about the node if the
// failure belongs to no service.
func (s *Syncer) recordFailure(f dataplane.Failure, now time.Time) {
	planned := s.table.At(f.Frontend)
	server := planned.Any()
	var service object.Name
	if server != nil {
		service = server.Service
	}
	change := planned.String()
	if f.Frontend == dataplane.SharedRules {
		change = setSources
	}
	it, news := s.failing.add(f, change, service, now)
	if _, ofNode := errors.AsType[*dataplane.NodeError](f.Err); ofNode || !news || isPanic(f.Err) {
		return
	}
	reason := events.FailedToProgram
	switch {
	case errors.Is(f.Err, dataplane.ErrNotSupported):
		reason = events.NotSupported
	case s.listens && server != nil:
		reason = events.FailedToListen
	}
	message := it.change + ": " + it.err.Error()
	if it.remedy != "" {
		message += "; " + it.remedy
	}
	if svc, _ := s.view.Service(service); svc != nil {
		s.events.WarnService(svc, reason, message)
		return
	}
	s.events.WarnNode(reason, message)
}

// reportNodeError reports a failure of the node once, even if it stops the changes of many
// services. If failed contains none, the failure is over.
func (s *Syncer) reportNodeError(failed []dataplane.Failure) {
	var message string
	for _, f := range failed {
		if of, ok := errors.AsType[*dataplane.NodeError](f.Err); ok {
			message = of.Error() + "; " + of.Remedy
			break
		}
	}
	if message != "" && message != s.nodeError {
		s.events.WarnNode(events.FailedToProgram, message)
	}
	s.nodeError = message
}

// retry retries the failures that are due.
func (s *Syncer) retry(ctx context.Context) {
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	frontends, _ := s.failing.dueRetries(time.Now())
	if len(frontends) > 0 {
		s.program(ctx, s.changesAt(frontends))
	}
	s.storeProgress()
}

// setSources describes a change of the sources.
var setSources = plan.Step{Op: plan.SetSources}.String()

// changesAt returns the changes that bring frontends to the plan. SharedRules stands for the
// sources.
func (s *Syncer) changesAt(frontends []plan.Frontend) plan.Changes {
	var c plan.Changes
	for _, f := range frontends {
		if f == dataplane.SharedRules {
			sources := s.table.Sources()
			c.Sources = &sources
			continue
		}
		c.Frontends = append(c.Frontends, s.table.At(f))
	}
	return c
}

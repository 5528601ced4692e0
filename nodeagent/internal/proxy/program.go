package proxy

import (
	"context"
	"errors"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/tracing"
)

// program puts changes in force and records the failures.
func (s *Syncer) program(ctx context.Context, c plan.Changes) {
	now := time.Now()
	ctx, span := tracing.Start(ctx, "program")
	steps, failed := dataplane.Reconcile(ctx, s.plane, c)
	span.Count("portolan.steps", len(steps))
	span.Count("portolan.failures", len(failed))
	span.End(nil)
	for _, step := range steps {
		s.metrics.steps.WithLabelValues(step.Op.String()).Inc()
	}
	s.clearFailures(c, failed)
	for _, f := range failed {
		s.metrics.failures.WithLabelValues(f.Step.Op.String()).Inc()
		if ctx.Err() == nil {
			s.recordFailure(f, now)
		}
	}
	if ctx.Err() == nil {
		s.reportNodeError(failed)
	}
	servers, reals := s.table.Counts()
	s.metrics.servers.Set(float64(servers))
	s.metrics.reals.Set(float64(reals))
}

// clearFailures ends the failures of the changed keys, except those that failed again.
func (s *Syncer) clearFailures(c plan.Changes, failed []dataplane.Failure) {
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

// sharedRules is the key of steps that concern all services.
var sharedRules plan.Key

// recordFailure records a failure and writes an event about the service, or about the node if the
// failure belongs to no service.
func (s *Syncer) recordFailure(f dataplane.Failure, now time.Time) {
	server := s.table.Server(f.Step.Key)
	var service plan.ServiceName
	if server != nil {
		service = server.Service
	}
	it, news := s.failing.add(f, service, now)
	if _, ofNode := errors.AsType[*dataplane.NodeError](f.Err); ofNode || !news {
		return
	}
	reason := events.FailedToProgram
	switch {
	case errors.Is(f.Err, dataplane.ErrNotSupported):
		reason = events.NotSupported
	case s.listens && server != nil:
		reason = events.FailedToListen
	}
	message := it.step.String() + ": " + it.err.Error()
	if it.remedy != "" {
		message += "; " + it.remedy
	}
	if svc, _ := s.view.Service(service); svc != nil {
		s.events.WarnService(svc, reason, message)
		return
	}
	s.events.WarnNode(reason, message)
}

// reportNodeError reports a failure of the node once, even if it stops the steps of many services.
// If failed contains none, the failure is over.
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
	keys, _ := s.failing.due(time.Now())
	if len(keys) > 0 {
		s.program(ctx, s.changesAt(keys))
	}
	s.storeProgress()
}

// changesAt returns the changes that bring keys to the plan.
func (s *Syncer) changesAt(keys []plan.Key) plan.Changes {
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

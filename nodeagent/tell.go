package nodeagent

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/nodeagent/view"
)

// tell writes an event about a service unless its last event had the same message.
func (s *syncer) tell(name plan.ServiceName, svc *corev1.Service, reason string, problems []string) {
	message := strings.Join(problems, "; ")
	if s.told[name] == message {
		return
	}
	s.told[name] = message
	s.events.warn(svc, reason, message)
}

// tellConflicts writes an event if another service owns a frontend of this one.
func (s *syncer) tellConflicts(name plan.ServiceName) {
	conflicts := s.table.Conflicts(name)
	if len(conflicts) == 0 {
		delete(s.conflicts, name)
		return
	}
	s.conflicts[name] = struct{}{}
	if svc, _ := s.view.Service(name); svc != nil {
		s.tell(name, svc, reasonAddressInUse, conflicts)
	}
}

// measure observes the time from the changes of pods until now.
func (s *syncer) measure(services map[plan.ServiceName]view.Service) {
	now := time.Now()
	for name, svc := range services {
		if svc.Object != nil {
			if at := s.metrics.latencies(svc.Slices, s.trigger[name], now); !at.IsZero() {
				s.trigger[name] = at
			}
		}
	}
}

// audit compares the state in force with the plan and repairs the differences. It returns
// descriptions of them.
func (s *syncer) audit(ctx context.Context) ([]string, error) {
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	have, err := s.plane.State(ctx)
	s.readBack(ctx, err)
	if err != nil {
		return nil, err
	}
	var words []string
	var keys []plan.Key
	for _, step := range plan.Diff(have, s.table.State()) {
		if !s.adopted && s.table.Server(step.Key) == nil {
			continue // an earlier agent may have known more than this one does yet
		}
		keys = append(keys, step.Key)
		if s.failing[step.Key] == nil { // known failures are not drift
			words = append(words, step.String())
		}
	}
	slices.SortFunc(keys, plan.Key.Compare)
	s.metrics.drift.Add(float64(len(words)))
	s.repaired += uint64(len(words))
	s.program(ctx, s.wanted(slices.Compact(keys)))
	s.stand()
	return words, nil
}

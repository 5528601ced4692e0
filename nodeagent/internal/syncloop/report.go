package syncloop

import (
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/nodeagent/internal/events"
)

// reportProblems writes an event about a service unless its last event had the same message.
func (s *Syncer) reportProblems(name object.Name, svc *corev1.Service, reason string, problems []string) {
	message := strings.Join(problems, "; ")
	if s.reported[name] == message {
		return
	}
	s.reported[name] = message
	s.events.WarnService(svc, reason, message)
}

// reportConflicts writes an event if another service owns a frontend of this one.
func (s *Syncer) reportConflicts(name object.Name) {
	conflicts := s.table.Conflicts(name)
	if len(conflicts) == 0 {
		delete(s.conflicts, name)
		return
	}
	s.conflicts[name] = struct{}{}
	if svc, _ := s.view.Service(name); svc != nil {
		s.reportProblems(name, svc, events.AddressInUse, conflicts)
	}
}

package nodeagent

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/proto/portolan/nodeagent/v1"

	"portolan.dev/nodeagent/plan"
)

// badChecks are the health-check ports that could not be opened. They have a
// lock of their own, taken last: the health-check server reports while it is
// being changed by the syncer.
type badChecks struct {
	mu sync.Mutex
	by map[plan.ServiceName]*nodeagentv1.StepFailure
}

// set notes the state of a port, and tells whether a failure is news.
func (b *badChecks) set(service plan.ServiceName, port uint16, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		delete(b.by, service)
		return false
	}
	step := fmt.Sprintf("listen on health-check port %d", port)
	if old := b.by[service]; old != nil && old.GetStep() == step {
		return false
	}
	if b.by == nil {
		b.by = map[plan.ServiceName]*nodeagentv1.StepFailure{}
	}
	b.by[service] = &nodeagentv1.StepFailure{
		Step: step, Error: err.Error(), Service: service.String(), Since: timestamppb.New(time.Now()),
		Remedy: fmt.Sprintf("free the port (see: ss -ltnp 'sport = :%d'), or recreate the service to get another one", port),
	}
	return true
}

func (b *badChecks) list() []*nodeagentv1.StepFailure {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.by))
}

func (b *badChecks) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.by)
}

// checkReported is told by the health-check server how a port is.
func (s *syncer) checkReported(service plan.ServiceName, port uint16, err error) {
	if !s.badChecks.set(service, port, err) {
		return
	}
	if svc, _ := s.view.Service(service); svc != nil {
		s.events.warn(svc, reasonHealthCheckNodePort, fmt.Sprintf("health-check port %d: %v", port, err))
	}
}

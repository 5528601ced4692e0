package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/nodeagent/plan"
)

// troubleAudit is a problem of the node as a whole, as named in status.
const troubleAudit = "read back what is in force"

// troubles are failures that belong to no virtual server: health-check ports that could not be
// opened, and problems of the node as a whole. They have a lock of their own, which is taken last,
// because the health-check server reports while the syncer changes it.
type troubles struct {
	mu sync.Mutex
	by map[trouble]*nodeagentv1.StepFailure
}

// trouble identifies a failure by a description and a service. The zero service name stands for the
// node.
type trouble struct {
	what    string
	service plan.ServiceName
	notice  bool // everything is still forwarded as planned
}

// set records a failure and reports whether it is new. A nil error ends the failure.
func (t *troubles) set(id trouble, err error, remedy string) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.by, id)
		return false
	}
	old := t.by[id]
	if old != nil && old.GetError() == err.Error() {
		return false
	}
	f := &nodeagentv1.StepFailure{Step: id.what, Error: err.Error(), Remedy: remedy, Since: timestamppb.New(time.Now())}
	if id.service != (plan.ServiceName{}) {
		f.Service = id.service.String()
	}
	if old != nil {
		f.Since = old.GetSince()
	}
	if t.by == nil {
		t.by = map[trouble]*nodeagentv1.StepFailure{}
	}
	t.by[id] = f
	return true
}

// endNotices ends the notices that are not in hold.
func (t *troubles) endNotices(hold map[trouble]netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.by {
		if _, holds := hold[id]; id.notice && !holds {
			delete(t.by, id)
		}
	}
}

// forget ends all failures of a service.
func (t *troubles) forget(service plan.ServiceName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.by {
		if id.service == service && !id.notice {
			delete(t.by, id)
		}
	}
}

// list returns all failures, and notices if requested, sorted by description.
func (t *troubles) list(notices bool) []*nodeagentv1.StepFailure {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*nodeagentv1.StepFailure, 0, len(t.by))
	for id, f := range t.by {
		if notices || !id.notice {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b *nodeagentv1.StepFailure) int {
		return cmp.Or(cmp.Compare(a.GetStep(), b.GetStep()), cmp.Compare(a.GetService(), b.GetService()))
	})
	return out
}

// ReportHealthCheckPort records the health-check server's report about a port.
func (s *Syncer) ReportHealthCheckPort(service plan.ServiceName, port uint16, err error) {
	defer s.tellProgress()
	if err == nil {
		s.troubles.forget(service)
		return
	}
	remedy := fmt.Sprintf("free the port (see: ss -ltnp 'sport = :%d'), or recreate the service to get another one", port)
	id := trouble{what: fmt.Sprintf("listen on health-check port %d", port), service: service}
	if !s.troubles.set(id, err, remedy) {
		return
	}
	if svc, _ := s.view.Service(service); svc != nil {
		s.events.WarnService(svc, events.HealthCheckFailed, fmt.Sprintf("health-check port %d: %v", port, err))
	}
}

// ReportNode records the result of an operation of the node as a whole, and writes an event for a
// new failure.
func (s *Syncer) ReportNode(what string, err error, reason string) {
	defer s.tellProgress()
	if s.troubles.set(trouble{what: what}, err, "") {
		s.events.WarnNode(reason, what+": "+err.Error())
	}
}

// readBack records whether the state in force could be read. Errors of an agent that is being
// stopped are ignored.
func (s *Syncer) readBack(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.ReportNode(troubleAudit, err, events.FailedToReadBack)
	}
}

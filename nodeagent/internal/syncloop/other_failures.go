package syncloop

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
	"portolan.dev/services/object"

	"portolan.dev/nodeagent/internal/events"
)

// readBack is an operation of the node as a whole, as named in status.
const readBack = "read back what is in force"

// planService is the operation that builds the plan of a service, as named in status.
const planService = "plan the service"

// otherFailures are failures that belong to no virtual server: health-check ports that could not be
// opened, and problems of the node as a whole. They have a lock of their own, which is taken last,
// because the health-check server reports while the syncer changes it.
type otherFailures struct {
	mu sync.Mutex
	by map[otherFailure]*nodeagentv1.StepFailure
}

// otherFailure identifies a failure by the operation that fails, and a service. The zero service
// name stands for the node.
type otherFailure struct {
	operation string
	service   object.Name
	notice    bool // everything is still forwarded as planned
}

// set records a failure and reports whether it is new. A nil error ends the failure.
func (o *otherFailures) set(id otherFailure, err error, remedy string) (news bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		delete(o.by, id)
		return false
	}
	old := o.by[id]
	if old != nil && old.GetError() == err.Error() {
		return false
	}
	f := &nodeagentv1.StepFailure{Step: id.operation, Error: err.Error(), Remedy: remedy, Since: timestamppb.New(time.Now())}
	if id.service != (object.Name{}) {
		f.Service = id.service.String()
	}
	if old != nil {
		f.Since = old.GetSince()
	}
	if o.by == nil {
		o.by = map[otherFailure]*nodeagentv1.StepFailure{}
	}
	o.by[id] = f
	return true
}

// endNotices ends the notices that are not in current.
func (o *otherFailures) endNotices(current map[otherFailure]netip.AddrPort) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.by {
		if _, ok := current[id]; id.notice && !ok {
			delete(o.by, id)
		}
	}
}

// forget ends all failures of the health-check port of a service.
func (o *otherFailures) forget(service object.Name) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.by {
		if id.service == service && !id.notice && id.operation != planService {
			delete(o.by, id)
		}
	}
}

// list returns all failures, and notices if requested, sorted by operation.
func (o *otherFailures) list(notices bool) []*nodeagentv1.StepFailure {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]*nodeagentv1.StepFailure, 0, len(o.by))
	for id, f := range o.by {
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
func (s *Syncer) ReportHealthCheckPort(service object.Name, port uint16, err error) {
	defer s.heartbeatDue.Send()
	if err == nil {
		s.others.forget(service)
		return
	}
	remedy := fmt.Sprintf("free the port (see: ss -ltnp 'sport = :%d'), or recreate the service to get another one", port)
	id := otherFailure{operation: fmt.Sprintf("listen on health-check port %d", port), service: service}
	if !s.others.set(id, err, remedy) {
		return
	}
	if svc, _ := s.view.Service(service); svc != nil {
		s.events.WarnService(svc, events.HealthCheckFailed, fmt.Sprintf("health-check port %d: %v", port, err))
	}
}

// ReportNodeFailure records the result of an operation of the node as a whole, and writes an event
// for a new failure.
func (s *Syncer) ReportNodeFailure(operation string, err error, reason string) {
	defer s.heartbeatDue.Send()
	if s.others.set(otherFailure{operation: operation}, err, "") {
		s.events.WarnNode(reason, operation+": "+err.Error())
	}
}

// recordReadBack records whether the state in force could be read. Errors of an agent that is being
// stopped are ignored.
func (s *Syncer) recordReadBack(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.ReportNodeFailure(readBack, err, events.FailedToReadBack)
	}
}

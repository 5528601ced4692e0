package syncloop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/object"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// MaxPending is the maximum number of steps in one answer.
const MaxPending = 1000

// waitingServices returns the sorted names of services that have changed and are not planned yet.
// If the facts have changed, these are all services.
func (s *Syncer) waitingServices() []object.Name {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all {
		return s.view.ServiceNames()
	}
	return s.view.PendingServices()
}

// pendingOf returns the steps from the state in force to the plan of one service. The caller holds
// tableMu.
func (s *Syncer) pendingOf(name object.Name, servers []*plan.VirtualServer, waiting bool) []*nodeagentv1.PendingStep {
	wanted := map[plan.Key]*plan.VirtualServer{}
	for _, v := range s.table.Planned(name) {
		wanted[v.Key] = nil // unless the new plan has it
	}
	for _, v := range servers {
		wanted[v.Key] = v
	}
	var out []*nodeagentv1.PendingStep
	for _, key := range slices.SortedFunc(maps.Keys(wanted), plan.Key.Compare) {
		have := s.plane.Programmed(key)
		if have != nil && have.Service != name && s.table.Owner(key.Frontend) != name {
			have = nil // it belongs to another service, which only the reason mentions
			if wanted[key] == nil {
				continue
			}
		}
		for _, step := range plan.DiffServer(have, wanted[key]) {
			out = append(out, describeStep(step, name, s.whyPending(step.Key, name, waiting)))
		}
	}
	if s.failing[dataplane.SharedRules] != nil {
		out = append(out, describeStep(plan.Step{Op: plan.SetSources}, object.Name{}, s.whyPending(plan.Key{}, name, false)))
	}
	return out
}

// Pending reads the kernel's state again and returns the steps from there to the plan, and the
// number of further steps that do not fit.
func (s *Syncer) Pending(ctx context.Context) (out []*nodeagentv1.PendingStep, more int, err error) {
	waiting := s.waitingServices()
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	have, err := s.plane.State(ctx)
	if err != nil {
		return nil, 0, err
	}
	want := s.table.State()
	for _, name := range waiting {
		out = append(out, &nodeagentv1.PendingStep{
			Op: "plan", Step: "plan " + name.String() + " anew", Service: name.String(), Reason: "it changed, and is about to be programmed",
		})
	}
	for _, step := range plan.Diff(have, want) {
		var service object.Name
		if v := want.Servers[step.Key]; v != nil {
			service = v.Service
		} else if v := have.Servers[step.Key]; v != nil {
			service = v.Service
		}
		out = append(out, describeStep(step, service, s.whyPending(step.Key, service, false)))
	}
	if more = len(out) - MaxPending; more > 0 {
		return out[:MaxPending], more, nil
	}
	return out, 0, nil
}

func describeStep(step plan.Step, service object.Name, reason string) *nodeagentv1.PendingStep {
	p := &nodeagentv1.PendingStep{Op: step.Op.String(), Step: step.String(), Reason: reason}
	if service != (object.Name{}) {
		p.Service = service.String()
	}
	return p
}

// whyPending returns the reason why the plan at a key is not in force.
func (s *Syncer) whyPending(key plan.Key, service object.Name, waiting bool) string {
	if f := s.failing[key.Frontend]; f != nil {
		if f.next.IsZero() {
			return "failed: " + describeError(f) + "; trying again would not help"
		}
		return fmt.Sprintf("failed: %s; tried again in %s", describeError(f), max(0, time.Until(f.next)).Round(100*time.Millisecond))
	}
	switch owner := s.table.Owner(key.Frontend); {
	case owner != service && owner != (object.Name{}):
		return inUse(owner)
	case waiting:
		return "it changed, and is about to be programmed"
	}
	return "what is in force is not what was programmed; the next audit, or a resync, repairs it"
}

func inUse(owner object.Name) string {
	return "in use by service " + owner.String() + ", which is older"
}

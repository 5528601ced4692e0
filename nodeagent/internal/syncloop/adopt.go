package syncloop

import (
	"context"
	"runtime/debug"
	"slices"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/changes"
)

// adopt removes the state of an earlier agent from the data plane that is not in the plan, once the
// view is from the registry. A view from the disk may be older than the state in force. While a service cannot be
// planned, because that panics, all state stays, because a part of it may belong to that service.
func (s *Syncer) adopt(ctx context.Context) {
	if s.adopted || !s.live.Load() || s.guard.Failing(changes.StepView, stepPlan) {
		return
	}
	have, err := s.plane.State(ctx)
	s.recordReadBack(ctx, err)
	if err != nil {
		return
	}
	s.adopted = true
	var stale []plan.Frontend
	for key := range have.Servers {
		if s.table.Server(key) == nil {
			stale = append(stale, key.Frontend)
		}
	}
	slices.SortFunc(stale, plan.Frontend.Compare)
	s.program(ctx, s.changesAt(slices.Compact(stale)))
	// Return the memory that reading the snapshot and the kernel took. From now on there is too
	// little garbage to cause a collection soon.
	debug.FreeOSMemory()
}

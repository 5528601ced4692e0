package proxy

import (
	"context"
	"runtime/debug"
	"slices"

	"portolan.dev/nodeagent/plan"
)

// withReplaced adds to the changes the removal of servers of an earlier agent that are at the same
// frontends for other audiences, and are not planned any more. This way, the audiences of a
// frontend change in one step.
func (s *Syncer) withReplaced(c plan.Changes) plan.Changes {
	if s.adopted {
		return c
	}
	seen := make(map[plan.Key]bool, len(c.Servers))
	for _, w := range c.Servers {
		seen[w.Key] = true
	}
	for _, w := range c.Servers {
		for _, a := range []plan.Audience{plan.Anyone, plan.Internal, plan.External} {
			key := plan.Key{Frontend: w.Key.Frontend, Audience: a}
			if !seen[key] && s.table.Server(key) == nil && s.plane.Programmed(key) != nil {
				seen[key] = true
				c.Servers = append(c.Servers, plan.Wanted{Key: key})
			}
		}
	}
	slices.SortFunc(c.Servers, func(a, b plan.Wanted) int { return a.Key.Compare(b.Key) })
	return c
}

// adopt removes the state of an earlier agent from the data plane that is not in the plan, once the
// view is from the registry. A view from the disk may be older than the state in force.
func (s *Syncer) adopt(ctx context.Context) {
	if s.adopted || !s.live.Load() {
		return
	}
	have, err := s.plane.State(ctx)
	s.recordReadBack(ctx, err)
	if err != nil {
		return
	}
	s.adopted = true
	var gone plan.Changes
	for key := range have.Servers {
		if s.table.Server(key) == nil {
			gone.Servers = append(gone.Servers, plan.Wanted{Key: key})
		}
	}
	s.program(ctx, gone)
	// Return the memory that reading the snapshot and the kernel took. From now on there is too
	// little garbage to cause a collection soon.
	debug.FreeOSMemory()
}

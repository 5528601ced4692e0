package syncloop

import (
	"context"
	"slices"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// Audit compares the state in force with the plan and repairs the differences. It returns
// descriptions of them.
func (s *Syncer) Audit(ctx context.Context) ([]string, error) {
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	have, err := s.plane.State(ctx)
	s.recordReadBack(ctx, err)
	if err != nil {
		return nil, err
	}
	changed := plan.Changed(have, s.table.State())
	if !s.adopted { // an earlier agent may have known more than this one does yet
		changed.Frontends = slices.DeleteFunc(changed.Frontends, func(f plan.FrontendServers) bool { return f.Empty() })
	}
	words := s.drift(changed)
	s.metrics.drift.Add(float64(len(words)))
	s.repaired += uint64(len(words))
	s.program(ctx, changed)
	s.storeProgress()
	s.lastAudit = time.Now()
	if len(words) > 0 {
		s.log.Warn("drift repaired", "differences", words)
	}
	return words, nil
}

// drift describes changes, without those that are known failures.
func (s *Syncer) drift(changed plan.Changes) []string {
	var words []string
	if changed.Sources != nil && s.failing[dataplane.SharedRules] == nil {
		words = append(words, setSources)
	}
	for i := range changed.Frontends {
		if f := &changed.Frontends[i]; s.failing[f.Frontend] == nil {
			words = append(words, f.String())
		}
	}
	return words
}

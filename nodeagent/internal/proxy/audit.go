package proxy

import (
	"context"
	"slices"
	"time"

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
	s.program(ctx, s.changesAt(slices.Compact(keys)))
	s.storeProgress()
	s.lastAudit = time.Now()
	if len(words) > 0 {
		s.log.Warn("drift repaired", "differences", words)
	}
	return words, nil
}

package syncloop

import (
	"maps"
	"slices"
	"time"

	"portolan.dev/nodeagent/internal/view"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// batch is the input of one sync. All of it is of the same revision, even if the view changes
// during the sync.
type batch struct {
	view.Batch
	names    []object.Name // sorted names of Services
	facts    plan.Facts
	sources  plan.Sources
	haveView bool
	cause    tracing.Span
}

// nextBatch returns all waiting work and clears it.
func (s *Syncer) nextBatch() batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := batch{Batch: s.view.NextBatch(s.all), facts: s.facts, sources: s.sources, haveView: s.haveView, cause: s.cause}
	b.names = slices.SortedFunc(maps.Keys(b.Services), object.Name.Compare)
	s.all, s.cause = false, tracing.Span{}
	return b
}

// batchDone records the end of a batch. Changes that came during the batch wait from now on.
func (s *Syncer) batchDone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitingSince = time.Time{}
	if s.all || s.view.HasPending() {
		s.waitingSince = time.Now()
	}
}

// parts divides a batch: urgent services are in force before the others are even planned. Each part
// is a complete plan, so that no step comes before one that it depends on.
func (b *batch) parts() [][]object.Name {
	var first, rest []object.Name
	for _, name := range b.names {
		if svc := b.Services[name].Object; svc != nil && urgent(svc) {
			first = append(first, name)
		} else {
			rest = append(rest, name)
		}
	}
	if len(first) == 0 || len(rest) == 0 {
		return [][]object.Name{b.names}
	}
	return [][]object.Name{first, rest}
}

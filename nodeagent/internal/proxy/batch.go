package proxy

import (
	"maps"
	"slices"
	"time"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/nodeagent/view"
	"portolan.dev/services/kit/tracing"
)

// batch is the input of one sync. All of it is of the same revision, even if the view changes
// during the sync.
type batch struct {
	view.Batch
	names   []plan.ServiceName // sorted names of Services
	facts   plan.Facts
	sources plan.Sources
	known   bool
	cause   tracing.Span
}

// take takes all waiting work.
func (s *Syncer) take() batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := batch{Batch: s.view.Take(s.all), facts: s.facts, sources: s.sources, known: s.known, cause: s.cause}
	b.names = slices.SortedFunc(maps.Keys(b.Services), plan.ServiceName.Compare)
	s.all, s.cause = false, tracing.Span{}
	return b
}

// rest records the end of a batch. Changes that came during the batch wait from now on.
func (s *Syncer) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = time.Time{}
	if s.all || s.view.Behind() {
		s.waiting = time.Now()
	}
}

// parts divides a batch: urgent services are in force before the others are even planned. Each part
// is a complete plan, so that no step comes before one that it depends on.
func (b *batch) parts() [][]plan.ServiceName {
	var first, rest []plan.ServiceName
	for _, name := range b.names {
		if svc := b.Services[name].Object; svc != nil && urgent(svc) {
			first = append(first, name)
		} else {
			rest = append(rest, name)
		}
	}
	if len(first) == 0 || len(rest) == 0 {
		return [][]plan.ServiceName{b.names}
	}
	return [][]plan.ServiceName{first, rest}
}

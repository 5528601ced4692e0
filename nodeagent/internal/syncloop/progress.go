package syncloop

import (
	"maps"
	"slices"
	"time"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/nodeagent/dataplane"
)

// maxNamed is the maximum number of services that a heartbeat names.
const maxNamed = 32

// progress is the node's progress as reported in heartbeats.
//
// Every change up to the revision was tried, and the other fields contain the failures at the same
// moment. If the revision were held back at the first failure instead, one service with a port in
// use would hide that all other services are in force.
type progress struct {
	applied  uint64
	failures int      // number of failing frontends, ports and the like
	services []string // services that are not forwarded as planned, sorted
	more     int      // number of services that do not fit in the list
	node     string   // the problem of the node as a whole; empty: none
}

// tableProgress is the part of the progress that is derived from the table.
type tableProgress struct {
	applied  uint64
	failures int
	services []object.Name // sorted
	shared   string        // why the shared rules are not in force
	since    time.Time     // start of the failure in shared
}

// storeProgress stores the present progress of the table, for readers that cannot wait for the data
// plane. The caller holds tableMu, and calls storeProgress after every change.
func (s *Syncer) storeProgress() {
	t := &tableProgress{applied: s.applied, failures: len(s.failing)}
	named := maps.Clone(s.conflicts)
	for at, f := range s.failing {
		switch {
		case at == dataplane.SharedRules:
			t.shared, t.since = f.change+": "+describeError(f), f.since
		case f.service != (object.Name{}):
			named[f.service] = struct{}{}
		}
	}
	t.services = slices.SortedFunc(maps.Keys(named), object.Name.Compare)
	s.tableProgress.Store(t)
	s.metrics.failing.Set(float64(len(s.failing)))
	s.heartbeatDue.Send()
}

// progress returns the node's progress without waiting for the data plane.
func (s *Syncer) progress() progress {
	t := s.tableProgress.Load()
	p := progress{applied: t.applied, failures: t.failures, node: t.shared}
	for _, name := range t.services {
		p.services = append(p.services, name.String())
	}
	for _, f := range s.others.list(false) {
		p.failures++
		switch {
		case f.GetService() != "":
			p.services = append(p.services, f.GetService())
		case p.node == "":
			p.node = f.GetStep() + ": " + f.GetError()
		}
	}
	slices.Sort(p.services)
	p.services = slices.Compact(p.services)
	if p.more = len(p.services) - maxNamed; p.more > 0 {
		p.services = p.services[:maxNamed]
	}
	p.more = max(p.more, 0)
	return p
}

// FillHeartbeat adds the progress to a heartbeat. It does not wait for the data plane. The
// failure's text is shortened and made UTF-8, because heartbeats with other text are dropped.
func (s *Syncer) FillHeartbeat(b *nodeagentv1.Heartbeat) {
	p := s.progress()
	b.AppliedRevision, b.FailingSteps, b.NodeFailure = p.applied, uint32(p.failures), spec.ShortenMessage(p.node)
	b.FailingServices, b.MoreFailingServices = p.services, uint32(p.more)
}

// Progress returns a channel that receives a token when there is news for the heartbeat.
func (s *Syncer) Progress() <-chan struct{} { return s.heartbeatDue }

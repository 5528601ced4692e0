package proxy

import (
	"maps"
	"slices"
	"time"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent/plan"
)

// mostNamed is the maximum number of services that a heartbeat names.
const mostNamed = 32

// standing is the node's progress as reported in heartbeats.
//
// Every change up to the revision was tried, and the other fields contain the failures at the same
// moment. If the revision were held back at the first failure instead, one service with a port in
// use would hide that all other services are in force.
type standing struct {
	applied  uint64
	failures int      // number of failing steps, ports and the like
	services []string // services that are not forwarded as planned, sorted
	more     int      // number of services that do not fit in the list
	node     string   // the problem of the node as a whole; empty: none
}

// core is the part of a standing that is derived from the table.
type core struct {
	applied  uint64
	failures int
	services []plan.ServiceName // sorted
	shared   string             // why the shared rules are not in force
	since    time.Time          // start of the failure in shared
}

// stand stores the present core, for readers that cannot wait for the data plane. The caller holds
// tableMu, and calls stand after every change.
func (s *Syncer) stand() {
	c := &core{applied: s.applied, failures: len(s.failing)}
	named := maps.Clone(s.conflicts)
	for key, f := range s.failing {
		switch {
		case key == sharedRules:
			c.shared, c.since = f.step.String()+": "+describeError(f), f.since
		case f.service != (plan.ServiceName{}):
			named[f.service] = struct{}{}
		}
	}
	c.services = slices.SortedFunc(maps.Keys(named), plan.ServiceName.Compare)
	s.core.Store(c)
	s.metrics.failing.Set(float64(len(s.failing)))
	s.tellProgress()
}

// standing returns the node's progress without waiting for the data plane.
func (s *Syncer) standing() standing {
	c := s.core.Load()
	st := standing{applied: c.applied, failures: c.failures, node: c.shared}
	for _, name := range c.services {
		st.services = append(st.services, name.String())
	}
	for _, f := range s.troubles.list(false) {
		st.failures++
		switch {
		case f.GetService() != "":
			st.services = append(st.services, f.GetService())
		case st.node == "":
			st.node = f.GetStep() + ": " + f.GetError()
		}
	}
	slices.Sort(st.services)
	st.services = slices.Compact(st.services)
	if st.more = len(st.services) - mostNamed; st.more > 0 {
		st.services = st.services[:mostNamed]
	}
	st.more = max(st.more, 0)
	return st
}

// FillHeartbeat adds the progress to a heartbeat. It does not wait for the data plane.
func (s *Syncer) FillHeartbeat(b *nodeagentv1.Heartbeat) {
	st := s.standing()
	b.AppliedRevision, b.FailingSteps, b.NodeFailure = st.applied, uint32(st.failures), st.node
	b.FailingServices, b.MoreFailingServices = st.services, uint32(st.more)
}

// Progress returns a channel that receives a token when there is news for the heartbeat.
func (s *Syncer) Progress() <-chan struct{} { return s.news }

// tellProgress requests a heartbeat soon.
func (s *Syncer) tellProgress() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

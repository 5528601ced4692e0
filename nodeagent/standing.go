package nodeagent

import (
	"maps"
	"slices"
	"time"

	"portolan.dev/nodeagent/plan"
)

// mostNamed bounds the services that a heartbeat names.
const mostNamed = 32

// standing is how far the node is, as heartbeats tell it.
//
// The revision says up to where everything was tried, the rest what did not
// work; both are of one moment. Holding the revision back at the first failure
// instead would let one service whose port is taken keep everybody from knowing
// that theirs is in force.
type standing struct {
	applied  uint64
	failures int      // steps, ports and the like
	services []string // that are not forwarded as planned, in order
	more     int      // services that have no place in the list
	node     string   // what is wrong with the node as a whole; empty: nothing
}

// core is the part of a standing that belongs to the table.
type core struct {
	applied  uint64
	failures int
	services []plan.ServiceName // in order
	shared   string             // why rules that all services share are not in force
	since    time.Time          // of shared
}

// stand notes how far the table is in force, for those who cannot wait for the
// data plane. It is called with the table's lock, after every change.
func (s *syncer) stand() {
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

// standing returns how far the node is, without waiting for the data plane.
func (s *syncer) standing() standing {
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

// tellProgress makes the next heartbeat come soon.
func (s *syncer) tellProgress() {
	select {
	case s.progress <- struct{}{}:
	default:
	}
}

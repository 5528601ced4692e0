package syncloop

import (
	"errors"
	"fmt"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// affinityChange is a change of a service's time of affinity.
type affinityChange struct{ from, to time.Duration }

// affinityKept returns the services with a changed time of affinity, if the data plane lets the clients that it
// knows keep the former one.
func (s *Syncer) affinityKept(c plan.Changes) map[object.Name]affinityChange {
	keeper, ok := s.plane.(dataplane.AffinityKeeper)
	if !ok || !keeper.KeepsAffinity() {
		return nil
	}
	kept := map[object.Name]affinityChange{}
	for i := range c.Frontends {
		for _, v := range c.Frontends[i].Servers {
			if v == nil || v.Affinity == 0 {
				continue
			}
			have := s.plane.Programmed(v.Key)
			if have != nil && have.Service == v.Service && have.Affinity > 0 && have.Affinity != v.Affinity {
				kept[v.Service] = affinityChange{have.Affinity, v.Affinity}
			}
		}
	}
	return kept
}

// reportAffinity writes an event about each service whose time of affinity has changed. A change that failed is
// reported when a later try succeeds.
func (s *Syncer) reportAffinity(kept map[object.Name]affinityChange, failed []dataplane.Failure) {
	for _, f := range failed {
		planned := s.table.At(f.Frontend)
		if server := planned.Any(); server != nil && !errors.Is(f.Err, dataplane.ErrNotSupported) {
			delete(kept, server.Service)
		}
	}
	for name, change := range kept {
		svc, _ := s.view.Service(name)
		if svc == nil {
			continue
		}
		s.events.WarnService(svc, events.AffinityKept, fmt.Sprintf(
			"new clients have an affinity of %s; clients that this node knows keep %s, counted from each connection, until they stay away for so long or their backend goes",
			change.to, change.from))
	}
}

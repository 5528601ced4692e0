package planes

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// claims are the backends of a frontend, by the services that claim the frontend.
type claims map[object.Key][]string

// claimChange is a change of the claim of a service to a frontend. The service claims the frontend
// after the change if claimed is set.
type claimChange struct {
	revision uint64
	frontend Frontend
	service  object.Key
	claimed  bool
	backends []string
}

// planHistory is the sequence of plans of a node that follows from the log. advance moves it to a
// later revision.
type planHistory struct {
	addresses    []netip.Addr
	plan         map[Frontend]claims // at the current revision
	claimChanges []claimChange       // after the current revision
	writes       []write             // after the current revision, in order
	worlds       map[object.Key]*model.World
	claimed      map[object.Key]Content
}

// write is a write of a service or of one of its slices.
type write struct {
	revision uint64
	service  object.Key
}

// planHistoryOf returns the plans of a node with these addresses, at the log's base. The plans
// follow from the slices in the log, so selectors are removed. (Slices follow pods with a delay.)
func planHistoryOf(log *history.Log, addresses []netip.Addr) *planHistory {
	c := &planHistory{
		addresses: addresses, plan: map[Frontend]claims{}, worlds: map[object.Key]*model.World{}, claimed: map[object.Key]Content{},
	}
	for _, o := range log.Objects {
		c.addChange(log.Base, nil, o)
	}
	c.advance(log.Base)
	c.writes = nil
	for s := range log.Steps() {
		c.addChange(s.Revision, s.Old, s.New)
	}
	return c
}

// addChange adds one change of the log, with the object before and after it. At most one of them is
// nil.
func (c *planHistory) addChange(revision uint64, before, after object.Object) {
	services := map[object.Key]bool{}
	if service, ok := serviceOf(before); ok {
		c.world(service).Delete(object.KeyOf(before))
		services[service] = true
	}
	if service, ok := serviceOf(after); ok {
		c.world(service).Put(withoutSelector(after))
		services[service] = true
	}
	for service := range services {
		c.writes = append(c.writes, write{revision, service})
		c.updateClaims(revision, service)
	}
}

// serviceOf returns the key of the service if the object is a service or one of its slices.
func serviceOf(o object.Object) (object.Key, bool) {
	switch o := o.(type) {
	case *corev1.Service:
		return object.KeyOf(o), true
	case *corev1.EndpointSlice:
		return object.ServiceKey(o), true
	}
	return object.Key{}, false
}

func withoutSelector(o object.Object) object.Object {
	svc, ok := o.(*corev1.Service)
	if !ok {
		return o
	}
	svc = object.Clone(svc)
	if svc.GetSpec() != nil {
		svc.Spec.Selector = nil
	}
	return svc
}

// world returns the world of one service and its slices.
func (c *planHistory) world(service object.Key) *model.World {
	if c.worlds[service] == nil {
		c.worlds[service] = model.New()
	}
	return c.worlds[service]
}

// updateClaims adds the changes from the previous to the present claims of a service.
func (c *planHistory) updateClaims(revision uint64, service object.Key) {
	current := Content{}
	for _, f := range c.world(service).Frontends(c.addresses) {
		current[Frontend{f.Address, f.Protocol}] = f.Backends
	}
	before := c.claimed[service]
	for at, backends := range current {
		if old, claimed := before[at]; !claimed || !slices.Equal(old, backends) {
			c.claimChanges = append(c.claimChanges, claimChange{revision, at, service, true, backends})
		}
	}
	for at := range before {
		if _, claimed := current[at]; !claimed {
			c.claimChanges = append(c.claimChanges, claimChange{revision: revision, frontend: at, service: service})
		}
	}
	c.claimed[service] = current
}

// advance moves to a revision, which must not be lower than the current one.
func (c *planHistory) advance(revision uint64) {
	n := 0
	for ; n < len(c.claimChanges) && c.claimChanges[n].revision <= revision; n++ {
		change := &c.claimChanges[n]
		c.plan[change.frontend] = c.plan[change.frontend].apply(change)
		if len(c.plan[change.frontend]) == 0 {
			delete(c.plan, change.frontend)
		}
	}
	c.claimChanges = c.claimChanges[n:]
	n = 0
	for n < len(c.writes) && c.writes[n].revision <= revision {
		n++
	}
	c.writes = c.writes[n:]
}

// apply returns the claims after a change. It does not modify c.
func (c claims) apply(change *claimChange) claims {
	next := maps.Clone(c)
	if next == nil {
		next = claims{}
	}
	if change.claimed {
		next[change.service] = change.backends
	} else {
		delete(next, change.service)
	}
	return next
}

// changesUntil returns the frontends that change up to a revision, each with its present claims and
// its claims after each change.
func (c *planHistory) changesUntil(revision uint64) map[Frontend][]claims {
	all := map[Frontend][]claims{}
	for i := range c.claimChanges {
		change := &c.claimChanges[i]
		if change.revision > revision {
			break
		}
		if all[change.frontend] == nil {
			all[change.frontend] = []claims{c.plan[change.frontend]}
		}
		last := all[change.frontend][len(all[change.frontend])-1]
		all[change.frontend] = append(all[change.frontend], last.apply(change))
	}
	return all
}

// writtenUntil reports whether a service or one of its slices is written up to a revision.
func (c *planHistory) writtenUntil(service object.Key, revision uint64) bool {
	return slices.ContainsFunc(c.writes, func(w write) bool { return w.service == service && w.revision <= revision })
}

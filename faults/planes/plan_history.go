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

// claims are the backends of a frontend, by the service that claims the frontend.
type claims map[object.Key][]string

// claimChange is a change of the claim of a service at a frontend.
type claimChange struct {
	revision uint64
	at       Frontend
	service  object.Key
	there    bool
	backends []string
}

// planHistory is the sequence of plans of a node that follows from the log.
type planHistory struct {
	addresses    []netip.Addr
	plan         map[Frontend]claims // at the log's base, or at the revision of the last advance
	claimChanges []claimChange       // after that revision
	writes       []write             // in order
	worlds       map[object.Key]*model.World
	wanted       map[object.Key]Content
}

// write is a write of a service or one of its slices.
type write struct {
	revision uint64
	service  object.Key
}

// planHistoryOf returns the course of a node with these addresses. The plan follows from the slices
// in the log, so selectors are removed. (Slices follow pods with a delay.)
func planHistoryOf(log *history.Log, addresses []netip.Addr) *planHistory {
	c := &planHistory{
		addresses: addresses, plan: map[Frontend]claims{}, worlds: map[object.Key]*model.World{}, wanted: map[object.Key]Content{},
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
		c.refresh(revision, service)
	}
}

// serviceOf returns the key of the service, if the object is a service or a slice of one.
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

// refresh adds the claim changes between the previous and the present claims of a service.
func (c *planHistory) refresh(revision uint64, service object.Key) {
	now := Content{}
	for _, f := range c.world(service).Frontends(c.addresses) {
		now[Frontend{f.Address, f.Protocol}] = f.Backends
	}
	before := c.wanted[service]
	for at, backends := range now {
		if had, there := before[at]; !there || !slices.Equal(had, backends) {
			c.claimChanges = append(c.claimChanges, claimChange{revision, at, service, true, backends})
		}
	}
	for at := range before {
		if _, stays := now[at]; !stays {
			c.claimChanges = append(c.claimChanges, claimChange{revision: revision, at: at, service: service})
		}
	}
	c.wanted[service] = now
}

// advance brings the plan to a revision, which must not be below the one before.
func (c *planHistory) advance(revision uint64) {
	n := 0
	for ; n < len(c.claimChanges) && c.claimChanges[n].revision <= revision; n++ {
		s := &c.claimChanges[n]
		c.plan[s.at] = c.plan[s.at].after(s)
		if len(c.plan[s.at]) == 0 {
			delete(c.plan, s.at)
		}
	}
	c.claimChanges = c.claimChanges[n:]
	n = 0
	for n < len(c.writes) && c.writes[n].revision <= revision {
		n++
	}
	c.writes = c.writes[n:]
}

// after returns the claims after a change of a claim.
func (c claims) after(s *claimChange) claims {
	next := maps.Clone(c)
	if next == nil {
		next = claims{}
	}
	if s.there {
		next[s.service] = s.backends
	} else {
		delete(next, s.service)
	}
	return next
}

// until returns the frontends that change up to a revision, each with its present claims, and its
// claims after each change.
func (c *planHistory) until(revision uint64) map[Frontend][]claims {
	all := map[Frontend][]claims{}
	for i := range c.claimChanges {
		s := &c.claimChanges[i]
		if s.revision > revision {
			break
		}
		if all[s.at] == nil {
			all[s.at] = []claims{c.plan[s.at]}
		}
		last := all[s.at][len(all[s.at])-1]
		all[s.at] = append(all[s.at], last.after(s))
	}
	return all
}

// written reports whether a service or one of its slices is written up to a revision.
func (c *planHistory) written(service object.Key, revision uint64) bool {
	return slices.ContainsFunc(c.writes, func(t write) bool { return t.service == service && t.revision <= revision })
}

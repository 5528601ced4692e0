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

// shift is a change of the claim of a service at a frontend.
type shift struct {
	revision uint64
	at       Frontend
	service  object.Key
	there    bool
	backends []string
}

// course is the sequence of plans of a node that follows from the log.
type course struct {
	addresses []netip.Addr
	plan      map[Frontend]claims // at the log's base, or at the revision of the last advance
	shifts    []shift             // after that revision
	touched   []touch             // in order
	worlds    map[object.Key]*model.World
	wanted    map[object.Key]Content
}

// touch is a write of a service or one of its slices.
type touch struct {
	revision uint64
	service  object.Key
}

// courseOf returns the course of a node with these addresses. The plan follows from the slices in
// the log, so selectors are removed. (Slices follow pods with a delay.)
func courseOf(log *history.Log, addresses []netip.Addr) *course {
	c := &course{
		addresses: addresses, plan: map[Frontend]claims{}, worlds: map[object.Key]*model.World{}, wanted: map[object.Key]Content{},
	}
	for _, o := range log.Objects {
		c.take(log.Base, nil, o)
	}
	c.advance(log.Base)
	c.touched = nil
	for s := range log.Steps() {
		c.take(s.Revision, s.Old, s.New)
	}
	return c
}

// take adds one change of the log, with the object before and after it. At most one of them is nil.
func (c *course) take(revision uint64, before, after object.Object) {
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
		c.touched = append(c.touched, touch{revision, service})
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
func (c *course) world(service object.Key) *model.World {
	if c.worlds[service] == nil {
		c.worlds[service] = model.New()
	}
	return c.worlds[service]
}

// refresh adds the shifts between the previous and the present claims of a service.
func (c *course) refresh(revision uint64, service object.Key) {
	now := Content{}
	for _, f := range c.world(service).Frontends(c.addresses) {
		now[Frontend{f.Address, f.Protocol}] = f.Backends
	}
	before := c.wanted[service]
	for at, backends := range now {
		if had, there := before[at]; !there || !slices.Equal(had, backends) {
			c.shifts = append(c.shifts, shift{revision, at, service, true, backends})
		}
	}
	for at := range before {
		if _, stays := now[at]; !stays {
			c.shifts = append(c.shifts, shift{revision: revision, at: at, service: service})
		}
	}
	c.wanted[service] = now
}

// advance brings the plan to a revision, which must not be below the one before.
func (c *course) advance(revision uint64) {
	n := 0
	for ; n < len(c.shifts) && c.shifts[n].revision <= revision; n++ {
		s := &c.shifts[n]
		c.plan[s.at] = c.plan[s.at].after(s)
		if len(c.plan[s.at]) == 0 {
			delete(c.plan, s.at)
		}
	}
	c.shifts = c.shifts[n:]
	n = 0
	for n < len(c.touched) && c.touched[n].revision <= revision {
		n++
	}
	c.touched = c.touched[n:]
}

// after returns the claims after a shift.
func (c claims) after(s *shift) claims {
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
func (c *course) until(revision uint64) map[Frontend][]claims {
	all := map[Frontend][]claims{}
	for i := range c.shifts {
		s := &c.shifts[i]
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
func (c *course) written(service object.Key, revision uint64) bool {
	return slices.ContainsFunc(c.touched, func(t touch) bool { return t.service == service && t.revision <= revision })
}

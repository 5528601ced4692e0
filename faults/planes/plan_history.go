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
	p := &planHistory{
		addresses: addresses, plan: map[Frontend]claims{}, worlds: map[object.Key]*model.World{}, claimed: map[object.Key]Content{},
	}
	for _, o := range log.Objects {
		p.addChange(log.Base, nil, o)
	}
	p.advance(log.Base)
	p.writes = nil
	for s := range log.Steps() {
		p.addChange(s.Revision, s.Old, s.New)
	}
	return p
}

// addChange adds one change of the log, with the object before and after it. At most one of them is
// nil.
func (p *planHistory) addChange(revision uint64, before, after object.Object) {
	services := map[object.Key]bool{}
	if service, ok := serviceOf(before); ok {
		p.world(service).Delete(object.KeyOf(before))
		services[service] = true
	}
	if service, ok := serviceOf(after); ok {
		p.world(service).Put(withoutSelector(after))
		services[service] = true
	}
	for service := range services {
		p.writes = append(p.writes, write{revision, service})
		p.updateClaims(revision, service)
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
func (p *planHistory) world(service object.Key) *model.World {
	if p.worlds[service] == nil {
		p.worlds[service] = model.New()
	}
	return p.worlds[service]
}

// updateClaims adds the changes from the previous to the present claims of a service.
func (p *planHistory) updateClaims(revision uint64, service object.Key) {
	current := Content{}
	for _, f := range p.world(service).Frontends(p.addresses) {
		current[Frontend{f.Address, f.Protocol}] = f.Backends
	}
	before := p.claimed[service]
	for at, backends := range current {
		if old, claimed := before[at]; !claimed || !slices.Equal(old, backends) {
			p.claimChanges = append(p.claimChanges, claimChange{revision, at, service, true, backends})
		}
	}
	for at := range before {
		if _, claimed := current[at]; !claimed {
			p.claimChanges = append(p.claimChanges, claimChange{revision: revision, frontend: at, service: service})
		}
	}
	p.claimed[service] = current
}

// advance moves to a revision, which must not be lower than the current one.
func (p *planHistory) advance(revision uint64) {
	n := 0
	for ; n < len(p.claimChanges) && p.claimChanges[n].revision <= revision; n++ {
		change := &p.claimChanges[n]
		p.plan[change.frontend] = p.plan[change.frontend].apply(change)
		if len(p.plan[change.frontend]) == 0 {
			delete(p.plan, change.frontend)
		}
	}
	p.claimChanges = p.claimChanges[n:]
	n = 0
	for n < len(p.writes) && p.writes[n].revision <= revision {
		n++
	}
	p.writes = p.writes[n:]
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
func (p *planHistory) changesUntil(revision uint64) map[Frontend][]claims {
	all := map[Frontend][]claims{}
	for i := range p.claimChanges {
		change := &p.claimChanges[i]
		if change.revision > revision {
			break
		}
		if all[change.frontend] == nil {
			all[change.frontend] = []claims{p.plan[change.frontend]}
		}
		last := all[change.frontend][len(all[change.frontend])-1]
		all[change.frontend] = append(all[change.frontend], last.apply(change))
	}
	return all
}

// writtenUntil reports whether a service or one of its slices is written up to a revision.
func (p *planHistory) writtenUntil(service object.Key, revision uint64) bool {
	return slices.ContainsFunc(p.writes, func(w write) bool { return w.service == service && w.revision <= revision })
}

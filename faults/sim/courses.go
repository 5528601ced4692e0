package sim

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/sim/registry"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// serverKey identifies a server of the kernel: the server of a frontend, or its stand-in for
// clients outside.
type serverKey struct {
	at      plan.Frontend
	standIn bool
}

// plannedServer is the planned state of a server.
type plannedServer struct {
	there   bool
	weights map[netip.AddrPort]uint32
}

func (w plannedServer) equal(o plannedServer) bool {
	return w.there == o.there && maps.Equal(w.weights, o.weights)
}

// version is the planned state of a server from a revision on.
type version struct {
	plannedServer
	revision uint64
}

// courses holds the versions of a node's planned servers, derived from the log.
type courses struct {
	facts    plan.Facts
	read     uint64 // the last revision that they include
	services map[object.Name]*corev1.Service
	slices   map[object.Name]map[string]*corev1.EndpointSlice
	table    *plan.Table
	of       map[serverKey][]version // in order; the first one is from revision 0 on
}

func newCourses(facts plan.Facts) *courses {
	return &courses{
		facts: facts, services: map[object.Name]*corev1.Service{}, slices: map[object.Name]map[string]*corev1.EndpointSlice{},
		table: plan.NewTable(), of: map[serverKey][]version{},
	}
}

// extend reads the changes that were committed since the last call.
func (c *courses) extend(history []registry.Committed) {
	for ; c.read < uint64(len(history)); c.read++ {
		c.apply(history[c.read].Change)
	}
}

// apply applies a change of the log.
func (c *courses) apply(change *registryv1.Change) {
	gone := change.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE
	var name object.Name
	switch o := object.Unwrap(change.GetObject()).(type) {
	case *corev1.Service:
		name = object.NameOf(o)
		if c.services[name] = o; gone {
			delete(c.services, name)
		}
	case *corev1.EndpointSlice:
		name = object.ServiceOf(o)
		if c.slices[name] == nil {
			c.slices[name] = map[string]*corev1.EndpointSlice{}
		}
		if c.slices[name][o.GetMetadata().GetName()] = o; gone {
			delete(c.slices[name], o.GetMetadata().GetName())
		}
	default:
		return
	}
	built := plan.Build(c.services[name], slices.Collect(maps.Values(c.slices[name])), &c.facts)
	c.table.Set(name, 0, built.Servers)
	for _, changed := range c.table.Changes().Frontends {
		c.recordPlan(changed.Frontend, change.GetRevision())
	}
}

// recordPlan records the planned servers of a frontend from a revision on.
func (c *courses) recordPlan(at plan.Frontend, revision uint64) {
	planned := func(audience plan.Audience) *plan.VirtualServer {
		if v := c.table.Server(plan.Key{Frontend: at, Audience: audience}); v != nil {
			return v
		}
		return c.table.Server(plan.Key{Frontend: at, Audience: plan.AnyClient})
	}
	inside, outside := planned(plan.Internal), planned(plan.External)
	if inside == outside {
		outside = nil
	}
	for key, v := range map[serverKey]*plan.VirtualServer{{at: at}: inside, {at: at, standIn: true}: outside} {
		now := plannedServer{}
		if v != nil {
			now = plannedServer{there: true, weights: map[netip.AddrPort]uint32{}}
			for _, r := range v.Reals {
				now.weights[r.Addr] = r.Weight
			}
		}
		versions := c.versions(key)
		if !versions[len(versions)-1].equal(now) {
			c.of[key] = append(versions, version{now, revision})
		}
	}
}

// versions returns the versions of a server in their order.
func (c *courses) versions(key serverKey) []version {
	if c.of[key] == nil {
		c.of[key] = []version{{}}
	}
	return c.of[key]
}

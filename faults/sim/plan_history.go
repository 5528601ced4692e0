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

// serverKey identifies a server of the kernel: the server of a frontend, or the frontend's
// stand-in, which serves external clients.
type serverKey struct {
	frontend plan.Frontend
	standIn  bool
}

// plannedServer is the planned state of a server.
type plannedServer struct {
	exists  bool
	weights map[netip.AddrPort]uint32
}

func (p plannedServer) equal(o plannedServer) bool {
	return p.exists == o.exists && maps.Equal(p.weights, o.weights)
}

// version is the planned state of a server, starting with a revision.
type version struct {
	plannedServer
	revision uint64
}

// planHistory has all versions of a node's planned servers. It derives them from the log.
type planHistory struct {
	facts    plan.Facts
	revision uint64 // of the last change that was applied
	services map[object.Name]*corev1.Service
	slices   map[object.Name]map[string]*corev1.EndpointSlice
	table    *plan.Table
	byServer map[serverKey][]version // by revision; the first version is of revision 0
}

func newPlanHistory(facts plan.Facts) *planHistory {
	return &planHistory{
		facts: facts, services: map[object.Name]*corev1.Service{}, slices: map[object.Name]map[string]*corev1.EndpointSlice{},
		table: plan.NewTable(), byServer: map[serverKey][]version{},
	}
}

// extend applies the changes that were committed since the last call.
func (h *planHistory) extend(history []registry.Committed) {
	for ; h.revision < uint64(len(history)); h.revision++ {
		h.apply(history[h.revision].Change)
	}
}

// apply applies one change of the log to the planned servers.
func (h *planHistory) apply(change *registryv1.Change) {
	deleted := change.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE
	var name object.Name
	switch o := object.Unwrap(change.GetObject()).(type) {
	case *corev1.Service:
		name = object.NameOf(o)
		if h.services[name] = o; deleted {
			delete(h.services, name)
		}
	case *corev1.EndpointSlice:
		name = object.ServiceOf(o)
		if h.slices[name] == nil {
			h.slices[name] = map[string]*corev1.EndpointSlice{}
		}
		if h.slices[name][o.GetMetadata().GetName()] = o; deleted {
			delete(h.slices[name], o.GetMetadata().GetName())
		}
	default:
		return
	}
	built := plan.Build(h.services[name], slices.Collect(maps.Values(h.slices[name])), &h.facts)
	h.table.Set(name, 0, built.Servers)
	for _, changed := range h.table.Changes().Frontends {
		h.recordPlan(changed.Frontend, change.GetRevision())
	}
}

// recordPlan records the planned servers of a frontend at a revision.
func (h *planHistory) recordPlan(frontend plan.Frontend, revision uint64) {
	serverFor := func(audience plan.Audience) *plan.VirtualServer {
		if v := h.table.Server(plan.Key{Frontend: frontend, Audience: audience}); v != nil {
			return v
		}
		return h.table.Server(plan.Key{Frontend: frontend, Audience: plan.AnyClient})
	}
	internal, external := serverFor(plan.Internal), serverFor(plan.External)
	if internal == external {
		external = nil
	}
	for key, v := range map[serverKey]*plan.VirtualServer{{frontend: frontend}: internal, {frontend: frontend, standIn: true}: external} {
		state := plannedServer{}
		if v != nil {
			state = plannedServer{exists: true, weights: map[netip.AddrPort]uint32{}}
			for _, r := range v.Reals {
				state.weights[r.Addr] = r.Weight
			}
		}
		versions := h.versions(key)
		if !versions[len(versions)-1].equal(state) {
			h.byServer[key] = append(versions, version{state, revision})
		}
	}
}

// versions returns the versions of a server, ordered by revision.
func (h *planHistory) versions(key serverKey) []version {
	if h.byServer[key] == nil {
		h.byServer[key] = []version{{}}
	}
	return h.byServer[key]
}

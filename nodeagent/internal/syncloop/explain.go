package syncloop

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/endpoints"
	"portolan.dev/services/object"

	"portolan.dev/nodeagent/plan"
)

// explained is the plan of a service as made by planAnew.
type explained struct {
	plan.Result
	waiting bool
}

// Explain adds the virtual servers of services, with the reasons of all their endpoints, the state
// in force, and the steps from there to the plan. It reads the connections of all servers at once,
// because the nftables plane reads all flows of the node for it, and changes wait meanwhile.
func (s *Syncer) Explain(names []object.Name, to *nodeagentv1.GetPlanResponse) {
	plans := make([]explained, len(names))
	var keys []plan.Key
	for n, name := range names {
		plans[n] = s.planAnew(name)
		for _, v := range plans[n].Servers {
			keys = append(keys, v.Key)
		}
	}
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	connections := s.plane.Connections(keys...)
	for n, name := range names {
		for i, v := range plans[n].Servers {
			it := describeServer(v)
			it.Programmed, it.Error = s.inForce(v)
			it.RealServers = describeReals(plans[n].Choices[i], connections[v.Key])
			to.VirtualServers = append(to.VirtualServers, it)
		}
		to.Pending = append(to.Pending, s.pendingOf(name, plans[n].Servers, plans[n].waiting)...)
	}
}

// planAnew builds the plan of a service from the current view.
func (s *Syncer) planAnew(name object.Name) explained {
	s.mu.Lock()
	facts := s.facts
	waiting := s.all || s.view.IsPending(name)
	s.mu.Unlock()
	svc, slicesOf := s.view.Service(name)
	return explained{plan.Build(svc, slicesOf, &facts), waiting}
}

// inForce reports whether the data plane matches a planned server, and if not, the reason.
func (s *Syncer) inForce(v *plan.VirtualServer) (bool, string) {
	if f := s.failing[v.Frontend]; f != nil && f.service == v.Service {
		return false, describeError(f)
	}
	if have := s.plane.Programmed(v.Key); have != nil && have.Equal(v) {
		return true, ""
	}
	if owner := s.table.Owner(v.Frontend); owner != v.Service {
		return false, inUse(owner)
	}
	return false, "not programmed yet"
}

func describeError(f *failure) string {
	if f.remedy == "" {
		return f.err.Error()
	}
	return f.err.Error() + ": " + f.remedy
}

func describeServer(v *plan.VirtualServer) *nodeagentv1.VirtualServer {
	return &nodeagentv1.VirtualServer{
		Service: v.Service.String(), PortName: v.PortName,
		Address: v.Addr.Addr().String(), Port: int32(v.Addr.Port()), Protocol: v.Protocol.Proto(),
		Exposure: v.Exposure.String(), Scheduler: v.Scheduler.Proto(), AffinitySeconds: int32(v.Affinity / time.Second),
		Audience: v.Audience.String(), WithoutBackends: v.WithoutBackends.String(),
	}
}

// describeReals lists the candidates, those in use first, and then the draining backends.
func describeReals(choices []endpoints.Choice, active map[netip.AddrPort]uint32) []*nodeagentv1.RealServer {
	var out []*nodeagentv1.RealServer
	known := map[netip.AddrPort]bool{}
	for _, used := range []bool{true, false} {
		for _, c := range choices {
			if c.Used != used {
				continue
			}
			known[c.Addr] = true
			r := &nodeagentv1.RealServer{
				Address: c.Addr.Addr().String(), Port: int32(c.Addr.Port()), Used: used, Reason: c.Reason,
				ActiveConnections: active[c.Addr], Pod: c.Pod, Node: c.Node,
			}
			if used {
				r.Weight = c.Weight
			}
			r.Draining = !used && r.ActiveConnections > 0
			out = append(out, r)
		}
	}
	return append(out, describeRemoved(known, active)...)
}

// describeRemoved lists backends that are no longer candidates and still have connections.
func describeRemoved(known map[netip.AddrPort]bool, active map[netip.AddrPort]uint32) []*nodeagentv1.RealServer {
	var out []*nodeagentv1.RealServer
	for addr, n := range active {
		if n > 0 && !known[addr] {
			out = append(out, &nodeagentv1.RealServer{
				Address: addr.Addr().String(), Port: int32(addr.Port()), Reason: "gone, finishing its connections",
				Draining: true, ActiveConnections: n,
			})
		}
	}
	slices.SortFunc(out, func(a, b *nodeagentv1.RealServer) int {
		return cmp.Or(cmp.Compare(a.GetAddress(), b.GetAddress()), cmp.Compare(a.GetPort(), b.GetPort()))
	})
	return out
}

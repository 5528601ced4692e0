package nodeagent

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/rpc"
)

// maxPlan is the largest answer of GetPlan, in bytes. It is below the limit of clients.
const maxPlan = rpc.DefaultMaxMessage - 64<<10

// api implements the agent's NodeAgentService.
type api struct {
	nodeagentv1.UnsafeNodeAgentServiceServer
	agent *Agent
}

var _ nodeagentv1.NodeAgentServiceServer = (*api)(nil)

// GetStatus implements NodeAgentService.
func (s *api) GetStatus(context.Context, *nodeagentv1.GetStatusRequest) (*nodeagentv1.GetStatusResponse, error) {
	a := s.agent
	res := &nodeagentv1.GetStatusResponse{
		Node: a.name, ProxyMode: a.plane.Name(), FallbackReason: a.fallback, ViewRevision: a.view.Revision(),
		Synced: a.follower.Synced(), ViewAgeSeconds: a.viewAge().Seconds(), FromDisk: a.onDisk(), DiskViewRefused: a.diskRefused,
		Draining: a.draining.Load(), ProbedPods: uint32(a.prober.Pods()),
	}
	if at := a.lastAudit.Load(); at != 0 {
		res.LastAudit = timestamppb.New(time.Unix(0, at))
	}
	for _, s := range a.settings() {
		res.Sysctls = append(res.Sysctls, s.String())
	}
	res.QueueAgeSeconds = a.syncer.queueAge().Seconds()
	a.syncer.describe(res)
	return res, nil
}

// GetPlan implements NodeAgentService.
func (s *api) GetPlan(ctx context.Context, req *nodeagentv1.GetPlanRequest) (*nodeagentv1.GetPlanResponse, error) {
	v := s.agent.view
	res := &nodeagentv1.GetPlanResponse{Revision: v.Revision()}
	switch {
	case req.GetPendingOnly() && req.GetName() != "":
		return nil, apierr.FailedPrecondition("pending_only is about all services: leave out the name, or pending_only")
	case req.GetPendingOnly():
		pending, more, err := s.agent.syncer.pending(ctx)
		if err != nil {
			return nil, err
		}
		res.Pending, res.MorePending = pending, uint32(more)
		return res, nil
	case req.GetName() == "":
		return res, s.planAll(req.GetNamespace(), res)
	}
	name := plan.ServiceName{Namespace: cmp.Or(req.GetNamespace(), "default"), Name: req.GetName()}
	if svc, _ := v.Service(name); svc == nil {
		return nil, apierr.NotFound("Service", name.String())
	}
	s.agent.syncer.explain([]plan.ServiceName{name}, res)
	return res, nil
}

// planAll adds the plans of all services of a namespace. An empty namespace means all of them.
func (s *api) planAll(namespace string, res *nodeagentv1.GetPlanResponse) error {
	names := slices.DeleteFunc(s.agent.view.ServiceNames(), func(name plan.ServiceName) bool {
		return namespace != "" && namespace != name.Namespace
	})
	s.agent.syncer.explain(names, res)
	if more := len(res.GetPending()) - mostPending; more > 0 {
		res.Pending, res.MorePending = res.Pending[:mostPending], uint32(more)
	}
	if proto.Size(res) > maxPlan {
		return apierr.FailedPrecondition("the plan of so many services is too large for one answer: ask for one service, for one namespace, or for pending_only")
	}
	return nil
}

// Resync implements NodeAgentService.
func (s *api) Resync(ctx context.Context, _ *nodeagentv1.ResyncRequest) (*nodeagentv1.ResyncResponse, error) {
	if err := s.agent.refreshAddresses(); err != nil {
		return nil, err
	}
	found, err := s.agent.audit(ctx)
	if err != nil {
		return nil, err
	}
	return &nodeagentv1.ResyncResponse{Repaired: uint32(len(found)), Differences: found}, nil
}

// SetDraining implements NodeAgentService.
func (s *api) SetDraining(_ context.Context, req *nodeagentv1.SetDrainingRequest) (*nodeagentv1.SetDrainingResponse, error) {
	s.agent.draining.Store(req.GetDraining())
	s.agent.checks.Drain(req.GetDraining())
	return &nodeagentv1.SetDrainingResponse{Draining: req.GetDraining()}, nil
}

// describe adds the syncer's status.
func (s *syncer) describe(res *nodeagentv1.GetStatusResponse) {
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	servers, reals := s.table.Counts()
	res.VirtualServers, res.RealServers = uint32(servers), uint32(reals)
	res.AppliedRevision = s.applied
	res.Failures = append(s.failing.proto(), s.troubles.list(true)...)
	slices.SortFunc(res.Failures, func(a, b *nodeagentv1.StepFailure) int { return cmp.Compare(a.GetStep(), b.GetStep()) })
	res.DriftRepaired = s.repaired
}

// explained is the plan of a service as made by explain.
type explained struct {
	plan.Result
	waiting bool
}

// explain adds the virtual servers of services, with the reasons of all their endpoints, the state
// in force, and the steps from there to the plan. It reads the connections of all servers at once,
// because the nftables plane reads all flows of the node for it, and changes wait meanwhile.
func (s *syncer) explain(names []plan.ServiceName, to *nodeagentv1.GetPlanResponse) {
	plans := make([]explained, len(names))
	var keys []plan.Key
	for n, name := range names {
		plans[n] = s.plans(name)
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

// plans builds the plan of a service from the current view.
func (s *syncer) plans(name plan.ServiceName) explained {
	s.mu.Lock()
	facts := s.facts
	waiting := s.all || s.view.Waits(name)
	s.mu.Unlock()
	svc, slicesOf := s.view.Service(name)
	return explained{plan.Build(svc, slicesOf, &facts), waiting}
}

// inForce reports whether the data plane matches a planned server, and if not, the reason.
func (s *syncer) inForce(v *plan.VirtualServer) (bool, string) {
	if f := s.failing[v.Key]; f != nil && f.service == v.Service {
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

func describeError(f *failing) string {
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
func describeReals(choices []plan.Choice, active map[netip.AddrPort]uint32) []*nodeagentv1.RealServer {
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
	return append(out, describeGone(known, active)...)
}

// describeGone lists backends that are no longer candidates and still have connections.
func describeGone(known map[netip.AddrPort]bool, active map[netip.AddrPort]uint32) []*nodeagentv1.RealServer {
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

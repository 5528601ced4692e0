package nodeagent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent/internal/proxymode"
	"portolan.dev/nodeagent/internal/syncloop"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

// maxPlan is the largest answer of GetPlan, in bytes. It is below the limit of clients.
const maxPlan = rpc.DefaultMaxMessage - 64<<10

// compareTimeout limits how long an answer waits for the registry. It is below the deadline of the
// command line's calls, so that an agent without a registry still answers.
const compareTimeout = 3 * time.Second

// api implements the agent's NodeAgentService.
type api struct {
	nodeagentv1.UnsafeNodeAgentServiceServer
	daemon *Daemon
}

var _ nodeagentv1.NodeAgentServiceServer = (*api)(nil)

// GetStatus implements NodeAgentService.
func (s *api) GetStatus(context.Context, *nodeagentv1.GetStatusRequest) (*nodeagentv1.GetStatusResponse, error) {
	d := s.daemon
	res := &nodeagentv1.GetStatusResponse{
		Node: d.name, ProxyMode: d.plane.Name(), FallbackReason: d.fallback, ViewRevision: d.view.Revision(),
		Synced: d.follower.Synced(), ViewAgeSeconds: d.home.Age(d.follower).Seconds(), FromDisk: d.home.OnDisk(), DiskViewRefused: d.diskRefused,
		Draining: d.draining.Load(), ProbedPods: uint32(d.prober.Pods()), Warnings: d.host.Health.Warnings(),
		Announcing: d.announcer.Status(), Routing: d.advertiser.Status(), Proxy: d.proxies.Status(),
	}
	for _, s := range proxymode.Settings(d.plane) {
		res.Sysctls = append(res.Sysctls, s.String())
	}
	d.syncer.FillStatus(res)
	return res, nil
}

// GetPlan implements NodeAgentService. It first compares the changes from NATS with the registry's
// log, because a plan made of forged changes would explain the attacker's backends as ready.
func (s *api) GetPlan(ctx context.Context, req *nodeagentv1.GetPlanRequest) (*nodeagentv1.GetPlanResponse, error) {
	v, res := s.daemon.view, &nodeagentv1.GetPlanResponse{}
	res.NotCompared = reason(s.withRegistry(ctx, s.daemon.follower.Check))
	res.Revision = v.Revision()
	switch {
	case req.GetPendingOnly() && req.GetName() != "":
		return nil, apierr.FailedPrecondition("pending_only is about all services: leave out the name, or pending_only")
	case req.GetPendingOnly():
		pending, more, err := s.daemon.syncer.Pending(ctx)
		if err != nil {
			return nil, err
		}
		res.Pending, res.MorePending = pending, uint32(more)
		return res, nil
	case req.GetName() == "":
		return res, s.planAll(req.GetNamespace(), res)
	}
	name := object.Name{Namespace: cmp.Or(req.GetNamespace(), "default"), Name: req.GetName()}
	if svc, _ := v.Service(name); svc == nil {
		return nil, apierr.NotFound("Service", name.String())
	}
	s.daemon.syncer.Explain([]object.Name{name}, res)
	return res, nil
}

// planAll adds the plans of all services of a namespace. An empty namespace means all of them.
func (s *api) planAll(namespace string, res *nodeagentv1.GetPlanResponse) error {
	names := slices.DeleteFunc(s.daemon.view.ServiceNames(), func(name object.Name) bool {
		return namespace != "" && namespace != name.Namespace
	})
	s.daemon.syncer.Explain(names, res)
	if more := len(res.GetPending()) - syncloop.MaxPending; more > 0 {
		res.Pending, res.MorePending = res.Pending[:syncloop.MaxPending], uint32(more)
	}
	if proto.Size(res) > maxPlan {
		return apierr.FailedPrecondition("the plan of so many services is too large for one answer: ask for one service, for one namespace, or for pending_only")
	}
	return nil
}

// Resync implements NodeAgentService.
func (s *api) Resync(ctx context.Context, _ *nodeagentv1.ResyncRequest) (*nodeagentv1.ResyncResponse, error) {
	if err := s.daemon.refreshAddresses(); err != nil {
		return nil, err
	}
	res := &nodeagentv1.ResyncResponse{}
	res.NotCompared = reason(s.withRegistry(ctx, func(ctx context.Context) error {
		corrected, err := s.daemon.follower.Resync(ctx)
		res.ObjectsCorrected = uint32(corrected)
		return err
	}))
	found, err := s.daemon.syncer.Audit(ctx)
	if err != nil {
		return nil, err
	}
	res.Repaired, res.Differences = uint32(len(found)), found
	return res, nil
}

// withRegistry runs a comparison with the registry for at most compareTimeout.
func (s *api) withRegistry(ctx context.Context, compare func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	return compare(ctx)
}

// reason returns the text of an error, or nothing.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return apierr.Describe(err)
}

// SetDraining implements NodeAgentService.
func (s *api) SetDraining(_ context.Context, req *nodeagentv1.SetDrainingRequest) (*nodeagentv1.SetDrainingResponse, error) {
	s.daemon.draining.Store(req.GetDraining())
	s.daemon.checks.Drain(req.GetDraining())
	s.daemon.announcer.Wake()
	s.daemon.advertiser.Wake()
	s.daemon.proxies.Wake()
	return &nodeagentv1.SetDrainingResponse{Draining: req.GetDraining()}, nil
}

// maxReport is the maximum length of the message in ReportCheck, in bytes. A pod's condition has the same maximum.
const maxReport = 1 << 10

// ReportCheck implements NodeAgentService. The namespace is compared before the pod is looked up, so
// that the error does not depend on whether the pod exists.
func (s *api) ReportCheck(ctx context.Context, req *nodeagentv1.ReportCheckRequest) (*nodeagentv1.ReportCheckResponse, error) {
	key := object.Key{Kind: "Pod", Namespace: cmp.Or(req.GetNamespace(), object.DefaultNamespace), Name: req.GetPod()}
	if found := checkReport(req); len(found) > 0 {
		return nil, apierr.Invalid("ReportCheckRequest", "", found)
	}
	if err := access.CheckNamespace(ctx, key.Namespace); err != nil {
		return nil, err
	}
	pod := s.daemon.prober.Pod(key)
	switch {
	case pod == nil && !s.daemon.follower.Synced():
		return nil, apierr.Unavailable("the node agent does not know its pods yet: report again", time.Second)
	// Pods that the caller may not write do not exist for it, as in the registry.
	case pod == nil, access.CheckReport(ctx, pod) != nil:
		return nil, apierr.NotFound("Pod", key.Path())
	}
	var failure error
	if req.GetOutcome() == nodeagentv1.CheckOutcome_CHECK_OUTCOME_FAIL {
		failure = errors.New(cmp.Or(req.GetMessage(), "a client has reported that it is not ready"))
	}
	ttl, err := s.daemon.prober.Report(ctx, key, req.GetContainer(), failure)
	if err != nil {
		return nil, err
	}
	return &nodeagentv1.ReportCheckResponse{Ttl: durationpb.New(ttl), TtlSeconds: int32(ttl / time.Second)}, nil
}

func checkReport(req *nodeagentv1.ReportCheckRequest) (found apierr.Violations) {
	if req.GetPod() == "" {
		found.Add("pod", apierr.ReasonRequired, "required: the name of the pod")
	}
	switch req.GetOutcome() {
	case nodeagentv1.CheckOutcome_CHECK_OUTCOME_PASS, nodeagentv1.CheckOutcome_CHECK_OUTCOME_FAIL:
	default:
		found.Add("outcome", apierr.ReasonRequired, "required: pass or fail")
	}
	if len(req.GetMessage()) > maxReport {
		found.Add("message", apierr.ReasonTooLong, "may not be more than %d bytes", maxReport)
	}
	return found
}

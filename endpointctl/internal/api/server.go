package api

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/controller"
	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/packing"
)

// Config is the configuration of a [Server].
type Config struct {
	Follower    *changes.Follower
	Controller  *controller.Controller
	Index       *index.Index
	MaxPerSlice int
	Shards      int // of all replicas together
	// Held returns the shards that this replica holds, the epoch of the lease of shard 0, or 0 if it
	// does not hold it, and the reason why it takes no shards, or "".
	Held func() (shards []int, epoch uint64, waits string)
}

// Server implements EndpointControllerService.
type Server struct {
	endpointsv1.UnsafeEndpointControllerServiceServer

	cfg Config
}

var _ endpointsv1.EndpointControllerServiceServer = (*Server)(nil)

// New returns a server.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// ExplainService implements EndpointControllerService.
func (s *Server) ExplainService(ctx context.Context, req *endpointsv1.ExplainServiceRequest) (*endpointsv1.ExplainServiceResponse, error) {
	if err := access.CheckNamespace(ctx, req.GetNamespace()); err != nil {
		return nil, err
	}
	if err := s.ready(); err != nil {
		return nil, err
	}
	// If the registry does not answer, the explanation comes from the present view.
	_ = s.withRegistry(ctx, s.cfg.Follower.Check)
	key := object.Name{Namespace: req.GetNamespace(), Name: req.GetName()}
	if key.Namespace == "" {
		key.Namespace = object.DefaultNamespace
	}
	revision := s.cfg.Follower.Revision()
	known := s.cfg.Index.ReadNamespace(key)
	svc := known.Service
	if svc == nil {
		return nil, apierr.NotFound("Service", key.String())
	}
	resp := &endpointsv1.ExplainServiceResponse{Revision: revision, Managed: packing.UnmanagedReason(svc), SyncedHere: s.cfg.Controller.Holds(key)}
	if failure, failed := s.cfg.Controller.Failure(key); failed {
		resp.Failure = &endpointsv1.SyncFailure{Since: timestamppb.New(failure.Since), Message: failure.Message}
	}
	refused := s.cfg.Controller.Refused(key)
	var plan packing.Plan
	switch {
	case resp.GetManaged() == "":
		verdicts := packing.EvaluatePods(svc, known.Pods, known.FindNode, refused)
		resp.Pods = podVerdicts(slices.Clone(verdicts))
		plan = packing.Pack(packing.SlicesFromPods(svc, verdicts, s.cfg.MaxPerSlice), known.Slices)
		resp.Slices = plannedSlices(plan, known.Slices)
	case packing.IsMirrored(svc, known.Endpoints):
		want, _ := packing.SlicesFromEndpoints(known.Endpoints, refused)
		resp.LeftOut = refused.Texts()
		plan = packing.Pack(want, known.Mirrored)
		resp.Slices = plannedSlices(plan, known.Mirrored)
	}
	resp.Pending = resp.GetSyncedHere() && !plan.Empty()
	return resp, nil
}

func (s *Server) ready() error {
	if !s.cfg.Follower.Synced() {
		return apierr.Unavailable("the registry has not been read yet", time.Second)
	}
	return nil
}

// podVerdicts returns the verdicts with the selected pods first. It reorders the verdicts.
func podVerdicts(verdicts []*packing.PodVerdict) []*endpointsv1.PodVerdict {
	slices.SortStableFunc(verdicts, func(a, b *packing.PodVerdict) int {
		switch {
		case a.Selected == b.Selected:
			return 0
		case a.Selected:
			return -1
		default:
			return 1
		}
	})
	all := make([]*endpointsv1.PodVerdict, len(verdicts))
	for i, v := range verdicts {
		all[i] = &endpointsv1.PodVerdict{
			Name: v.Pod.GetMetadata().GetName(), Selected: v.Selected, Ready: v.Ready, Reason: v.Reason, UnresolvedPorts: v.Unresolved,
		}
		for _, a := range v.Addresses {
			all[i].Addresses = append(all[i].Addresses, a.String())
		}
	}
	return all
}

// plannedSlices returns the slices as they will be after the pending writes.
func plannedSlices(plan packing.Plan, existing []*corev1.EndpointSlice) []*corev1.EndpointSlice {
	byName := map[string]*corev1.EndpointSlice{}
	for _, s := range existing {
		byName[s.GetMetadata().GetName()] = s
	}
	for _, s := range plan.Update {
		byName[s.GetMetadata().GetName()] = s
	}
	for _, s := range plan.Delete {
		delete(byName, s.GetMetadata().GetName())
	}
	var all []*corev1.EndpointSlice
	for _, s := range existing {
		if now := byName[s.GetMetadata().GetName()]; now != nil {
			all = append(all, now)
		}
	}
	return append(all, plan.Create...)
}

// GetStatus implements EndpointControllerService.
func (s *Server) GetStatus(context.Context, *endpointsv1.GetStatusRequest) (*endpointsv1.GetStatusResponse, error) {
	services, pods := s.cfg.Index.Count()
	held, epoch, waits := s.cfg.Held()
	resp := &endpointsv1.GetStatusResponse{
		Revision: s.cfg.Follower.Revision(), Leader: epoch > 0, Epoch: epoch,
		Services: uint32(services), Pods: uint32(pods), Pending: uint32(s.cfg.Controller.Pending()),
		Shards: uint32(s.cfg.Shards), Waits: waits,
	}
	for _, shard := range held {
		resp.HeldShards = append(resp.HeldShards, uint32(shard))
	}
	return resp, nil
}

// Resync implements EndpointControllerService. It compares all objects of the view with the registry's
// and then makes all services of the held shards due, even if the objects cannot be compared. A replica
// that holds no shard returns FailedPrecondition, because it syncs no service.
func (s *Server) Resync(ctx context.Context, _ *endpointsv1.ResyncRequest) (*endpointsv1.ResyncResponse, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	if held, _, _ := s.cfg.Held(); len(held) == 0 {
		return nil, apierr.FailedPrecondition("this replica does not lead, and holds no shard: ask those that hold the leases")
	}
	res := &endpointsv1.ResyncResponse{}
	err := s.withRegistry(ctx, func(ctx context.Context) error {
		corrected, err := s.cfg.Follower.Resync(ctx)
		res.Services, res.ObjectsCorrected = uint32(s.cfg.Controller.Resync()), uint32(corrected)
		return err
	})
	if err != nil {
		res.NotCompared = apierr.Describe(err)
	}
	return res, nil
}

// compareTimeout limits how long an answer waits for the registry.
const compareTimeout = 3 * time.Second

// withRegistry runs a comparison with the registry for at most compareTimeout.
func (s *Server) withRegistry(ctx context.Context, compare func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	return compare(ctx)
}

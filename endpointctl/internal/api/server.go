package api

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/controller"
	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/packing"
)

// State is the part of the daemon that the server reports.
type State interface {
	// Synced reports whether the registry has been read.
	Synced() bool
	// Revision returns the revision up to which the registry has been read.
	Revision() uint64
	// Epoch returns the epoch of the lease of shard 0, or 0 if this replica does not hold it.
	Epoch() uint64
	// Shards returns the shards that this replica holds, and the number of all.
	Shards() (held []int, all int)
	// Waits returns the reason why this replica takes no shards, or "".
	Waits() string
	// Pending returns the number of services that are due.
	Pending() int
	// Failure returns the reason why the last sync of a service failed, and whether it failed.
	Failure(key object.Name) (controller.Failure, bool)
	// Refused returns the endpoints of a service that the registry refuses.
	Refused(key object.Name) packing.Refused
	// Check compares the changes from NATS with the registry's log, and repairs the view if they
	// differ.
	Check(ctx context.Context) error
	// Resync compares all objects of the view with the registry's and then makes all services of the
	// held shards due. It returns the number of these services, and the number of corrected objects. It
	// returns an error if the objects cannot be compared. The services are due in any case.
	Resync(ctx context.Context) (services, corrected int, err error)
}

// Server implements EndpointControllerService.
type Server struct {
	endpointsv1.UnsafeEndpointControllerServiceServer

	state       State
	index       *index.Index
	maxPerSlice int
}

var _ endpointsv1.EndpointControllerServiceServer = (*Server)(nil)

// New returns a server.
func New(state State, x *index.Index, maxPerSlice int) *Server {
	return &Server{state: state, index: x, maxPerSlice: maxPerSlice}
}

// ExplainService implements EndpointControllerService.
func (s *Server) ExplainService(ctx context.Context, req *endpointsv1.ExplainServiceRequest) (*endpointsv1.ExplainServiceResponse, error) {
	if err := access.CheckNamespace(ctx, req.GetNamespace()); err != nil {
		return nil, err
	}
	if err := s.ready(); err != nil {
		return nil, err
	}
	// If the registry does not answer, the explanation comes from the present view.
	_ = s.withRegistry(ctx, s.state.Check)
	key := object.Name{Namespace: req.GetNamespace(), Name: req.GetName()}
	if key.Namespace == "" {
		key.Namespace = object.DefaultNamespace
	}
	revision := s.state.Revision()
	known := s.index.ReadNamespace(key)
	svc := known.Service
	if svc == nil {
		return nil, apierr.NotFound("Service", key.String())
	}
	resp := &endpointsv1.ExplainServiceResponse{Revision: revision, Managed: packing.UnmanagedReason(svc)}
	if failure, failed := s.state.Failure(key); failed {
		resp.Failure = &endpointsv1.SyncFailure{Since: timestamppb.New(failure.Since), Message: failure.Message}
	}
	refused := s.state.Refused(key)
	switch {
	case resp.GetManaged() == "":
		verdicts := packing.EvaluatePods(svc, known.Pods, known.FindNode, refused)
		resp.Pods = podVerdicts(slices.Clone(verdicts))
		resp.Slices = plannedSlices(packing.SlicesFromPods(svc, verdicts, s.maxPerSlice), known.Slices)
	case packing.IsMirrored(svc, known.Endpoints):
		want, _ := packing.SlicesFromEndpoints(known.Endpoints, refused)
		resp.LeftOut = refused.Texts()
		resp.Slices = plannedSlices(want, known.Mirrored)
	}
	return resp, nil
}

func (s *Server) ready() error {
	if !s.state.Synced() {
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
func plannedSlices(w packing.DesiredSlices, existing []*corev1.EndpointSlice) []*corev1.EndpointSlice {
	plan := packing.Pack(w, existing)
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
	epoch := s.state.Epoch()
	services, pods := s.index.Count()
	held, shards := s.state.Shards()
	resp := &endpointsv1.GetStatusResponse{
		Revision: s.state.Revision(), Leader: epoch > 0, Epoch: epoch,
		Services: uint32(services), Pods: uint32(pods), Pending: uint32(s.state.Pending()),
		Shards: uint32(shards), Waits: s.state.Waits(),
	}
	for _, shard := range held {
		resp.HeldShards = append(resp.HeldShards, uint32(shard))
	}
	return resp, nil
}

// Resync implements EndpointControllerService. A replica that holds no shard returns
// FailedPrecondition, because it syncs no service.
func (s *Server) Resync(ctx context.Context, _ *endpointsv1.ResyncRequest) (*endpointsv1.ResyncResponse, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	if held, _ := s.state.Shards(); len(held) == 0 {
		return nil, apierr.FailedPrecondition("this replica does not lead, and holds no shard: ask those that hold the leases")
	}
	res := &endpointsv1.ResyncResponse{}
	err := s.withRegistry(ctx, func(ctx context.Context) error {
		services, corrected, err := s.state.Resync(ctx)
		res.Services, res.ObjectsCorrected = uint32(services), uint32(corrected)
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

package api

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
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
	// Leading reports whether this replica leads, and returns the epoch of its lease.
	Leading() (epoch uint64, leading bool)
	// Pending returns the number of services that are due.
	Pending() int
	// Failure returns the reason why the last sync of a service failed, and whether it failed.
	Failure(key object.Name) (controller.Failure, bool)
	// Refused returns the endpoints of a service that the registry refuses.
	Refused(key object.Name) packing.Refused
	// Resync makes all services due, and returns their number.
	Resync() int
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
func (s *Server) ExplainService(_ context.Context, req *endpointsv1.ExplainServiceRequest) (*endpointsv1.ExplainServiceResponse, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
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
		resp.Pods = podVerdicts(verdicts)
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

// podVerdicts returns the verdicts with the selected pods first.
func podVerdicts(verdicts []packing.PodVerdict) []*endpointsv1.PodVerdict {
	slices.SortStableFunc(verdicts, func(a, b packing.PodVerdict) int {
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
	epoch, leading := s.state.Leading()
	services, pods := s.index.Count()
	return &endpointsv1.GetStatusResponse{
		Revision: s.state.Revision(), Leader: leading, Epoch: epoch,
		Services: uint32(services), Pods: uint32(pods), Pending: uint32(s.state.Pending()),
	}, nil
}

// Resync implements EndpointControllerService. A replica that does not lead returns
// FailedPrecondition, because only the leader syncs.
func (s *Server) Resync(context.Context, *endpointsv1.ResyncRequest) (*endpointsv1.ResyncResponse, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	if _, leading := s.state.Leading(); !leading {
		return nil, apierr.FailedPrecondition("this replica does not lead: ask the one that holds the lease")
	}
	return &endpointsv1.ResyncResponse{Services: uint32(s.state.Resync())}, nil
}

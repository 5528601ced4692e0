package registrytest

import (
	"context"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
)

// Register serves the services that the controller uses.
func (r *Registry) Register(server grpc.ServiceRegistrar) {
	r.Log.Register(server)
	registryv1.RegisterBulkServiceServer(server, bulkServer{r: r})
	registryv1.RegisterLeaseServiceServer(server, leaseServer{r: r})
	registryv1.RegisterEventServiceServer(server, eventServer{r: r})
	registryv1.RegisterNodeServiceServer(server, nodeServer{r: r})
}

type leaseServer struct {
	registryv1.UnimplementedLeaseServiceServer
	r *Registry
}

func (s leaseServer) GetLease(_ context.Context, req *registryv1.GetLeaseRequest) (*registryv1.GetLeaseResponse, error) {
	o, err := get[*corev1.Lease](s.r, "Lease", req.GetNamespace(), req.GetName())
	return &registryv1.GetLeaseResponse{Lease: o}, err
}

func (s leaseServer) CreateLease(ctx context.Context, req *registryv1.CreateLeaseRequest) (*registryv1.CreateLeaseResponse, error) {
	o, err := create(ctx, s.r, req.GetLease())
	return &registryv1.CreateLeaseResponse{Lease: o}, err
}

func (s leaseServer) UpdateLease(ctx context.Context, req *registryv1.UpdateLeaseRequest) (*registryv1.UpdateLeaseResponse, error) {
	o, err := update(ctx, s.r, req.GetLease())
	return &registryv1.UpdateLeaseResponse{Lease: o}, err
}

type eventServer struct {
	registryv1.UnimplementedEventServiceServer
	r *Registry
}

func (s eventServer) CreateEvent(ctx context.Context, req *registryv1.CreateEventRequest) (*registryv1.CreateEventResponse, error) {
	o, err := create(ctx, s.r, req.GetEvent())
	return &registryv1.CreateEventResponse{Event: o}, err
}

type nodeServer struct {
	registryv1.UnimplementedNodeServiceServer
	r *Registry
}

func (s nodeServer) UpdateNodeStatus(ctx context.Context, req *registryv1.UpdateNodeStatusRequest) (*registryv1.UpdateNodeStatusResponse, error) {
	o, err := update(ctx, s.r, req.GetNode())
	return &registryv1.UpdateNodeStatusResponse{Node: o}, err
}

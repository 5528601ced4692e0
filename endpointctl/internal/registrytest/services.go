package registrytest

import (
	"context"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
)

// Register serves the services that the controller uses.
func (r *Registry) Register(server grpc.ServiceRegistrar) {
	r.RegisterWithoutBulk(server)
	registryv1.RegisterBulkServiceServer(server, bulkServer{r: r})
}

// RegisterWithoutBulk serves the services of a registry that has no BulkService.
func (r *Registry) RegisterWithoutBulk(server grpc.ServiceRegistrar) {
	r.Log.Register(server)
	registryv1.RegisterEndpointSliceServiceServer(server, sliceServer{r: r})
	registryv1.RegisterEndpointsServiceServer(server, endpointsServer{r: r})
	registryv1.RegisterLeaseServiceServer(server, leaseServer{r: r})
	registryv1.RegisterEventServiceServer(server, eventServer{r: r})
	registryv1.RegisterNodeServiceServer(server, nodeServer{r: r})
}

type sliceServer struct {
	registryv1.UnimplementedEndpointSliceServiceServer
	r *Registry
}

func (s sliceServer) CreateEndpointSlice(ctx context.Context, req *registryv1.CreateEndpointSliceRequest) (*registryv1.CreateEndpointSliceResponse, error) {
	o, err := create(ctx, s.r, req.GetEndpointSlice())
	o, err = respond(s.r, "create", o, err)
	return &registryv1.CreateEndpointSliceResponse{EndpointSlice: o}, err
}

func (s sliceServer) UpdateEndpointSlice(ctx context.Context, req *registryv1.UpdateEndpointSliceRequest) (*registryv1.UpdateEndpointSliceResponse, error) {
	o, err := update(ctx, s.r, req.GetEndpointSlice())
	o, err = respond(s.r, "update", o, err)
	return &registryv1.UpdateEndpointSliceResponse{EndpointSlice: o}, err
}

func (s sliceServer) DeleteEndpointSlice(ctx context.Context, req *registryv1.DeleteEndpointSliceRequest) (*registryv1.DeleteEndpointSliceResponse, error) {
	o, err := remove[*corev1.EndpointSlice](ctx, s.r, "EndpointSlice", req)
	o, err = respond(s.r, "delete", o, err)
	return &registryv1.DeleteEndpointSliceResponse{EndpointSlice: o}, err
}

type endpointsServer struct {
	registryv1.UnimplementedEndpointsServiceServer
	r *Registry
}

func (s endpointsServer) CreateEndpoints(ctx context.Context, req *registryv1.CreateEndpointsRequest) (*registryv1.CreateEndpointsResponse, error) {
	o, err := create(ctx, s.r, req.GetEndpoints())
	o, err = respond(s.r, "create", o, err)
	return &registryv1.CreateEndpointsResponse{Endpoints: o}, err
}

func (s endpointsServer) UpdateEndpoints(ctx context.Context, req *registryv1.UpdateEndpointsRequest) (*registryv1.UpdateEndpointsResponse, error) {
	o, err := update(ctx, s.r, req.GetEndpoints())
	o, err = respond(s.r, "update", o, err)
	return &registryv1.UpdateEndpointsResponse{Endpoints: o}, err
}

func (s endpointsServer) DeleteEndpoints(ctx context.Context, req *registryv1.DeleteEndpointsRequest) (*registryv1.DeleteEndpointsResponse, error) {
	o, err := remove[*corev1.Endpoints](ctx, s.r, "Endpoints", req)
	o, err = respond(s.r, "delete", o, err)
	return &registryv1.DeleteEndpointsResponse{Endpoints: o}, err
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

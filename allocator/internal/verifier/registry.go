package verifier

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/events"
	"portolan.dev/services/object"
)

// client is a Registry over gRPC.
type client struct {
	services registryv1.ServiceServiceClient
	pods     registryv1.PodServiceClient
	leases   registryv1.LeaseServiceClient
	changes  registryv1.ChangeServiceClient
	events   registryv1.EventServiceClient
}

// NewRegistry returns a Registry that uses a connection.
func NewRegistry(conn grpc.ClientConnInterface) Registry {
	return &client{
		services: registryv1.NewServiceServiceClient(conn),
		pods:     registryv1.NewPodServiceClient(conn),
		leases:   registryv1.NewLeaseServiceClient(conn),
		changes:  registryv1.NewChangeServiceClient(conn),
		events:   registryv1.NewEventServiceClient(conn),
	}
}

// Get implements Registry.
func (c *client) Get(ctx context.Context, key object.Key) (object.Object, error) {
	o, err := c.get(ctx, key)
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (c *client) get(ctx context.Context, key object.Key) (object.Object, error) {
	switch key.Kind {
	case kindPod:
		resp, err := c.pods.GetPod(ctx, &registryv1.GetPodRequest{Namespace: key.Namespace, Name: key.Name})
		return resp.GetPod(), err
	case kindLease:
		resp, err := c.leases.GetLease(ctx, &registryv1.GetLeaseRequest{Namespace: key.Namespace, Name: key.Name})
		return resp.GetLease(), err
	default:
		resp, err := c.services.GetService(ctx, &registryv1.GetServiceRequest{Namespace: key.Namespace, Name: key.Name})
		return resp.GetService(), err
	}
}

// Services implements Registry.
func (c *client) Services(ctx context.Context, namespace string) ([]*corev1.Service, error) {
	var all []*corev1.Service
	for token := ""; ; {
		resp, err := c.services.ListServices(ctx, &registryv1.ListServicesRequest{Namespace: namespace, PageToken: token})
		if err != nil {
			return nil, err
		}
		all = append(all, resp.GetServices()...)
		if token = resp.GetNextPageToken(); token == "" {
			return all, nil
		}
	}
}

// DeleteLease implements Registry.
func (c *client) DeleteLease(ctx context.Context, name string) error {
	resp, err := c.leases.DeleteLease(ctx, &registryv1.DeleteLeaseRequest{Namespace: object.DefaultNamespace, Name: name})
	switch {
	case status.Code(err) == codes.NotFound:
		return nil
	case err != nil:
		return err
	case len(resp.GetLease().GetMetadata().GetFinalizers()) > 0:
		return fmt.Errorf("lease %s: the finalizers %q keep it from being deleted; remove them", name, resp.GetLease().GetMetadata().GetFinalizers())
	}
	return nil
}

// Head implements Registry.
func (c *client) Head(ctx context.Context) (epoch string, revision uint64, err error) {
	resp, err := c.changes.GetHead(ctx, &registryv1.GetHeadRequest{})
	return resp.GetEpoch(), resp.GetRevision(), err
}

// Report implements Registry.
func (c *client) Report(ctx context.Context, about object.Object, typ corev1.EventType, reason, message string) error {
	_, err := c.events.CreateEvent(ctx, &registryv1.CreateEventRequest{Event: events.New("allocator", about, typ, reason, message)})
	return err
}

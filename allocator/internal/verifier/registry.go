package verifier

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

// component is the reporting component of events.
const component = "allocator"

// client is a Registry over gRPC.
type client struct {
	services registryv1.ServiceServiceClient
	pods     registryv1.PodServiceClient
	events   registryv1.EventServiceClient
}

// NewRegistry returns a Registry that uses a connection.
func NewRegistry(conn grpc.ClientConnInterface) Registry {
	return &client{
		services: registryv1.NewServiceServiceClient(conn),
		pods:     registryv1.NewPodServiceClient(conn),
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
	if key.Kind == kindPod {
		resp, err := c.pods.GetPod(ctx, &registryv1.GetPodRequest{Namespace: key.Namespace, Name: key.Name})
		return resp.GetPod(), err
	}
	resp, err := c.services.GetService(ctx, &registryv1.GetServiceRequest{Namespace: key.Namespace, Name: key.Name})
	return resp.GetService(), err
}

// Report implements Registry.
func (c *client) Report(ctx context.Context, svc *corev1.Service, typ corev1.EventType, reason, message string) error {
	meta := svc.GetMetadata()
	_, err := c.events.CreateEvent(ctx, &registryv1.CreateEventRequest{Event: &corev1.Event{
		Metadata:  &corev1.ObjectMeta{GenerateName: meta.GetName() + ".", Namespace: meta.GetNamespace()},
		Regarding: &corev1.ObjectReference{Kind: kindService, ApiVersion: "v1", Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid()},
		Reason:    reason, Message: message, Type: typ, ReportingComponent: component,
	}})
	return err
}

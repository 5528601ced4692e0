package workload

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// Writer executes steps and records the acknowledged objects.
type Writer struct {
	Registry grpc.ClientConnInterface
	World    *model.World
	History  *History
}

// Do executes one step. If it returns no error, the world has the result.
func (w *Writer) Do(ctx context.Context, s Step) error {
	stored, err := w.write(ctx, s)
	w.History.Note(s, stored, err)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", s.Verb, object.KeyOf(s.Object), err)
	case s.Verb == Delete:
		w.World.Delete(object.KeyOf(s.Object))
	default:
		w.World.Put(stored)
	}
	return nil
}

func (w *Writer) write(ctx context.Context, s Step) (object.Object, error) {
	switch o := s.Object.(type) {
	case *corev1.Service:
		return w.service(ctx, s.Verb, o)
	case *corev1.Pod:
		return w.pod(ctx, s.Verb, o)
	case *corev1.EndpointSlice:
		return w.slice(ctx, s.Verb, o)
	}
	return nil, fmt.Errorf("no step writes a %T", s.Object)
}

func (w *Writer) service(ctx context.Context, verb Verb, o *corev1.Service) (object.Object, error) {
	c := registryv1.NewServiceServiceClient(w.Registry)
	switch verb {
	case Create:
		got, err := c.CreateService(ctx, &registryv1.CreateServiceRequest{Service: o})
		return got.GetService(), err
	case Update:
		got, err := c.UpdateService(ctx, &registryv1.UpdateServiceRequest{Service: o})
		return got.GetService(), err
	default:
		got, err := c.DeleteService(ctx, &registryv1.DeleteServiceRequest{
			Namespace: o.GetMetadata().GetNamespace(), Name: o.GetMetadata().GetName(),
		})
		return got.GetService(), err
	}
}

// pod writes a pod. Its status is written separately, because writes of the pod ignore the status.
func (w *Writer) pod(ctx context.Context, verb Verb, o *corev1.Pod) (object.Object, error) {
	c := registryv1.NewPodServiceClient(w.Registry)
	switch verb {
	case Create:
		if _, err := c.CreatePod(ctx, &registryv1.CreatePodRequest{Pod: o}); err != nil {
			return nil, err
		}
	case Update:
		if _, err := c.UpdatePod(ctx, &registryv1.UpdatePodRequest{Pod: o}); err != nil {
			return nil, err
		}
	default:
		got, err := c.DeletePod(ctx, &registryv1.DeletePodRequest{
			Namespace: o.GetMetadata().GetNamespace(), Name: o.GetMetadata().GetName(),
		})
		return got.GetPod(), err
	}
	got, err := c.UpdatePodStatus(ctx, &registryv1.UpdatePodStatusRequest{Pod: o})
	return got.GetPod(), err
}

func (w *Writer) slice(ctx context.Context, verb Verb, o *corev1.EndpointSlice) (object.Object, error) {
	c := registryv1.NewEndpointSliceServiceClient(w.Registry)
	switch verb {
	case Create:
		got, err := c.CreateEndpointSlice(ctx, &registryv1.CreateEndpointSliceRequest{EndpointSlice: o})
		return got.GetEndpointSlice(), err
	case Update:
		got, err := c.UpdateEndpointSlice(ctx, &registryv1.UpdateEndpointSliceRequest{EndpointSlice: o})
		return got.GetEndpointSlice(), err
	default:
		got, err := c.DeleteEndpointSlice(ctx, &registryv1.DeleteEndpointSliceRequest{
			Namespace: o.GetMetadata().GetNamespace(), Name: o.GetMetadata().GetName(),
		})
		return got.GetEndpointSlice(), err
	}
}

package controller

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/object"
)

// singleCalls is the number of writes that a singleWriter makes at once.
const singleCalls = 16

// singleWriter makes each write by a call of its own, for a registry without BulkService.
type singleWriter struct {
	slices    registryv1.EndpointSliceServiceClient
	endpoints registryv1.EndpointsServiceClient
}

func newSingleWriter(registry grpc.ClientConnInterface) *singleWriter {
	return &singleWriter{registryv1.NewEndpointSliceServiceClient(registry), registryv1.NewEndpointsServiceClient(registry)}
}

// makeWrites makes writes and returns the outcome of each.
func (w *singleWriter) makeWrites(ctx context.Context, all []queued) []batch.Outcome[stored] {
	outcomes := make([]batch.Outcome[stored], len(all))
	slots := make(chan struct{}, singleCalls)
	var running sync.WaitGroup
	for i := range all {
		slots <- struct{}{}
		running.Go(func() {
			outcomes[i].Value, outcomes[i].Err = w.makeWrite(ctx, all[i].write)
			<-slots
		})
	}
	running.Wait()
	return outcomes
}

func (w *singleWriter) makeWrite(ctx context.Context, one write) (stored, error) {
	var o object.Object
	var err error
	switch typed := one.object.(type) {
	case *corev1.EndpointSlice:
		o, err = w.slice(ctx, one.op, typed)
	case *corev1.Endpoints:
		o, err = w.legacy(ctx, one.op, typed)
	default:
		return stored{}, fmt.Errorf("the controller writes no %s", object.KindOf(one.object))
	}
	meta := o.GetMetadata()
	return stored{meta.GetName(), meta.GetUid(), meta.GetResourceVersion(), one.op == opDelete}, err
}

func (w *singleWriter) slice(ctx context.Context, op string, s *corev1.EndpointSlice) (object.Object, error) {
	switch op {
	case opCreate:
		resp, err := w.slices.CreateEndpointSlice(ctx, &registryv1.CreateEndpointSliceRequest{EndpointSlice: s})
		return resp.GetEndpointSlice(), err
	case opUpdate:
		resp, err := w.slices.UpdateEndpointSlice(ctx, &registryv1.UpdateEndpointSliceRequest{EndpointSlice: s})
		return resp.GetEndpointSlice(), err
	}
	meta := s.GetMetadata()
	resp, err := w.slices.DeleteEndpointSlice(ctx, &registryv1.DeleteEndpointSliceRequest{
		Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(),
	})
	return resp.GetEndpointSlice(), err
}

func (w *singleWriter) legacy(ctx context.Context, op string, e *corev1.Endpoints) (object.Object, error) {
	switch op {
	case opCreate:
		resp, err := w.endpoints.CreateEndpoints(ctx, &registryv1.CreateEndpointsRequest{Endpoints: e})
		return resp.GetEndpoints(), err
	case opUpdate:
		resp, err := w.endpoints.UpdateEndpoints(ctx, &registryv1.UpdateEndpointsRequest{Endpoints: e})
		return resp.GetEndpoints(), err
	}
	meta := e.GetMetadata()
	resp, err := w.endpoints.DeleteEndpoints(ctx, &registryv1.DeleteEndpointsRequest{
		Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(),
	})
	return resp.GetEndpoints(), err
}

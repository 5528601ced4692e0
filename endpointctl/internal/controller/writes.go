package controller

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
)

// Values of the label op.
const (
	opCreate = "create"
	opUpdate = "update"
	opDelete = "delete"
)

func (t *task) createSlice(ctx context.Context, s *corev1.EndpointSlice) error {
	resp, err := t.c.slices.CreateEndpointSlice(ctx, &registryv1.CreateEndpointSliceRequest{EndpointSlice: s})
	if err != nil {
		return asRefusal(s, fmt.Errorf("create slice: %w", err))
	}
	t.recordWrite(resp.GetEndpointSlice(), opCreate)
	return nil
}

func (t *task) updateSlice(ctx context.Context, s *corev1.EndpointSlice) error {
	resp, err := t.c.slices.UpdateEndpointSlice(ctx, &registryv1.UpdateEndpointSliceRequest{EndpointSlice: s})
	if err != nil {
		return asRefusal(s, t.writeError(s, opUpdate, err))
	}
	t.recordWrite(resp.GetEndpointSlice(), opUpdate)
	return nil
}

// deleteSlices deletes slices. A slice that does not exist counts as deleted.
func (t *task) deleteSlices(ctx context.Context, all []*corev1.EndpointSlice) error {
	for _, s := range all {
		meta := s.GetMetadata()
		_, err := t.c.slices.DeleteEndpointSlice(ctx, &registryv1.DeleteEndpointSliceRequest{
			Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(),
		})
		if err == nil {
			t.recordDeletion(s)
		} else if err = t.writeError(s, opDelete, err); status.Code(err) != codes.NotFound {
			return err
		}
	}
	return nil
}

func (t *task) createEndpoints(ctx context.Context, e *corev1.Endpoints) error {
	resp, err := t.c.endpoints.CreateEndpoints(ctx, &registryv1.CreateEndpointsRequest{Endpoints: e})
	if err != nil {
		return asRefusal(e, fmt.Errorf("create endpoints: %w", err))
	}
	t.recordWrite(resp.GetEndpoints(), opCreate)
	return nil
}

func (t *task) updateEndpoints(ctx context.Context, e *corev1.Endpoints) error {
	resp, err := t.c.endpoints.UpdateEndpoints(ctx, &registryv1.UpdateEndpointsRequest{Endpoints: e})
	if err != nil {
		return asRefusal(e, t.writeError(e, opUpdate, err))
	}
	t.recordWrite(resp.GetEndpoints(), opUpdate)
	return nil
}

func (t *task) deleteEndpoints(ctx context.Context, e *corev1.Endpoints) error {
	if e == nil {
		return nil
	}
	meta := e.GetMetadata()
	_, err := t.c.endpoints.DeleteEndpoints(ctx, &registryv1.DeleteEndpointsRequest{
		Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(),
	})
	if err == nil {
		t.recordDeletion(e)
	} else if err = t.writeError(e, opDelete, err); status.Code(err) != codes.NotFound {
		return err
	}
	return nil
}

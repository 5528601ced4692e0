package registrytest

import (
	"context"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

type bulkServer struct {
	registryv1.UnimplementedBulkServiceServer
	r *Registry
}

// Write makes each write by itself, in the order of the request. Tests see each as an ordinary write.
func (s bulkServer) Write(ctx context.Context, req *registryv1.WriteRequest) (*registryv1.WriteResponse, error) {
	s.r.countCall(len(req.GetOperations()))
	resp := &registryv1.WriteResponse{}
	for _, operation := range req.GetOperations() {
		o, outcome, err := s.write(ctx, operation)
		if err != nil {
			st := apierr.ToStatus(err).Proto()
			resp.Results = append(resp.Results, &registryv1.WriteResult{
				Outcome: registryv1.WriteOutcome_WRITE_OUTCOME_FAILED,
				Error:   &registryv1.WriteError{Code: st.GetCode(), Message: st.GetMessage(), Details: st.GetDetails()},
			})
			continue
		}
		meta := o.GetMetadata()
		resp.Results = append(resp.Results, &registryv1.WriteResult{
			Outcome: outcome, Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(),
		})
	}
	return resp, nil
}

func (s bulkServer) write(ctx context.Context, operation *registryv1.WriteOperation) (object.Object, registryv1.WriteOutcome, error) {
	target := kinds.OperationOf(operation)
	switch o := target.Object.(type) {
	case *corev1.EndpointSlice:
		return writeTyped(ctx, s.r, target.Verb, o)
	case *corev1.Endpoints:
		return writeTyped(ctx, s.r, target.Verb, o)
	}
	deletion := operation.GetDelete()
	if deletion.GetKind() == "EndpointSlice" {
		return removeTyped[*corev1.EndpointSlice](ctx, s.r, deletion)
	}
	return removeTyped[*corev1.Endpoints](ctx, s.r, deletion)
}

func writeTyped[T object.Object](ctx context.Context, r *Registry, verb kinds.Verb, o T) (object.Object, registryv1.WriteOutcome, error) {
	op, outcome, write := "update", registryv1.WriteOutcome_WRITE_OUTCOME_UPDATED, update[T]
	if verb == kinds.Create {
		op, outcome, write = "create", registryv1.WriteOutcome_WRITE_OUTCOME_CREATED, create[T]
	}
	stored, err := write(ctx, r, o)
	stored, err = respond(r, op, stored, err)
	return stored, outcome, err
}

func removeTyped[T object.Object](ctx context.Context, r *Registry, deletion *registryv1.DeleteOperation) (object.Object, registryv1.WriteOutcome, error) {
	removed, err := remove[T](ctx, r, deletion.GetKind(), deletion)
	removed, err = respond(r, "delete", removed, err)
	return removed, registryv1.WriteOutcome_WRITE_OUTCOME_DELETED, err
}

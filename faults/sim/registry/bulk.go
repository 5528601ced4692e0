package registry

import (
	"context"
	"errors"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// writeMany executes a call of BulkService. All its writes are in one commit, in their order, each with
// its own outcome.
func (r *Registry) writeMany(ctx context.Context, request *registryv1.WriteRequest) []*registryv1.WriteResult {
	queued := make([]*write, len(request.GetOperations()))
	for i, operation := range request.GetOperations() {
		queued[i] = r.queue(func() (object.Object, error) { return r.writeOne(ctx, operation) })
	}
	results := make([]*registryv1.WriteResult, len(queued))
	for i, w := range queued {
		<-w.done
		results[i] = resultOf(kinds.OperationOf(request.GetOperations()[i]).Verb, w)
	}
	return results
}

// writeOne makes one write of a call, during its commit.
func (r *Registry) writeOne(ctx context.Context, operation *registryv1.WriteOperation) (object.Object, error) {
	target := kinds.OperationOf(operation)
	switch target.Verb {
	case kinds.Create:
		return r.create(ctx, target.Object)
	case kinds.Update, kinds.UpdateStatus:
		return r.update(ctx, target.Object, target.Verb == kinds.UpdateStatus)
	case kinds.Delete:
		deletion := operation.GetDelete()
		return r.remove(ctx, target.Key, deletion.GetUid(), deletion.GetResourceVersion())
	}
	return nil, apierr.Internal(errors.New("the simulated registry has no apply"))
}

func resultOf(verb kinds.Verb, w *write) *registryv1.WriteResult {
	if w.err != nil {
		st := apierr.ToStatus(w.err).Proto()
		return &registryv1.WriteResult{
			Outcome: registryv1.WriteOutcome_WRITE_OUTCOME_FAILED,
			Error:   &registryv1.WriteError{Code: st.GetCode(), Message: st.GetMessage(), Details: st.GetDetails()},
		}
	}
	meta := w.stored.GetMetadata()
	result := &registryv1.WriteResult{
		Outcome: registryv1.WriteOutcome_WRITE_OUTCOME_UPDATED, Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(),
	}
	switch verb {
	case kinds.Create:
		result.Outcome = registryv1.WriteOutcome_WRITE_OUTCOME_CREATED
	case kinds.Delete:
		result.Outcome = registryv1.WriteOutcome_WRITE_OUTCOME_DELETED
	}
	return result
}

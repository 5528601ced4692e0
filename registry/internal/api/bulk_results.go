package api

import (
	"strings"

	"google.golang.org/grpc/status"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/admission"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

// Limits of the answer to a bulk call. The writes are made before it, so the answer must not be too
// large to be sent. The objects and the details of errors that exceed their limit are left out.
const (
	maxObjects = rpc.DefaultMaxMessage * 5 / 8
	maxDetails = rpc.DefaultMaxMessage * 7 / 8
	maxMessage = 256 // of an error without its details, in bytes
)

// results collects the results of a bulk call.
type results struct {
	brief bool
	all   []*registryv1.WriteResult
	size  int // of all, encoded
}

// add adds the result of a write that succeeded.
func (r *results) add(isDelete bool, written *admission.Result) {
	meta := written.Object.GetMetadata()
	result := &registryv1.WriteResult{
		Outcome: outcomeOf(isDelete, written), Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(),
		Revision: written.Revision, Warnings: written.Warnings,
	}
	if !r.brief {
		result.Object = object.Wrap(written.Object)
	}
	size := result.SizeVT()
	if r.size+size > maxObjects && result.Object != nil {
		result.Object = nil
		size = result.SizeVT()
	}
	r.all, r.size = append(r.all, result), r.size+size
}

// addFailure adds the result of a write that failed.
func (r *results) addFailure(st *status.Status) {
	failure := &registryv1.WriteError{Code: st.Proto().GetCode(), Message: st.Message(), Details: st.Proto().GetDetails()}
	size := failure.SizeVT()
	if r.size+size > maxDetails {
		failure.Details = nil
		if len(failure.Message) > maxMessage {
			failure.Message = strings.ToValidUTF8(failure.Message[:maxMessage], "") + "..."
		}
		size = failure.SizeVT()
	}
	r.all = append(r.all, &registryv1.WriteResult{Outcome: registryv1.WriteOutcome_WRITE_OUTCOME_FAILED, Error: failure})
	r.size += size
}

func outcomeOf(isDelete bool, result *admission.Result) registryv1.WriteOutcome {
	switch {
	case result.Removed:
		return registryv1.WriteOutcome_WRITE_OUTCOME_DELETED
	case isDelete:
		return registryv1.WriteOutcome_WRITE_OUTCOME_TERMINATING
	case result.Created:
		return registryv1.WriteOutcome_WRITE_OUTCOME_CREATED
	case result.Changed:
		return registryv1.WriteOutcome_WRITE_OUTCOME_UPDATED
	}
	return registryv1.WriteOutcome_WRITE_OUTCOME_UNCHANGED
}

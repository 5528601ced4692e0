package daemon

import (
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/rpc"
)

// operationsOf returns the operations of a bulk call for the audit log, or nil for other calls and
// for one that failed as a whole.
func operationsOf(method string, request, response any) []rpc.Operation {
	call, ok := request.(*registryv1.WriteRequest)
	if !ok {
		return nil
	}
	answer, ok := response.(*registryv1.WriteResponse)
	if !ok || len(answer.GetResults()) != len(call.GetOperations()) {
		return nil
	}
	operations := make([]rpc.Operation, len(call.GetOperations()))
	for i, operation := range call.GetOperations() {
		operations[i] = operationOf(operation, call.GetDryRun(), answer.GetResults()[i])
		if operations[i].Method == "" { // no method could have made it
			operations[i].Method = method
		}
	}
	return operations
}

// operationOf describes one operation.
func operationOf(operation *registryv1.WriteOperation, dryRun bool, result *registryv1.WriteResult) rpc.Operation {
	target := kinds.OperationOf(operation)
	found := rpc.Operation{Method: target.Method(), Object: audit.Object{DryRun: dryRun, Revision: result.GetRevision()}}
	describeKey(&found.Object, target.Key)
	if failure := result.GetError(); failure != nil {
		found.Object.UID = operation.GetDelete().GetUid()
		found.Err = apierr.FromFields(failure.GetCode(), failure.GetMessage(), failure.GetDetails())
		return found
	}
	found.Object.Name = result.GetName()
	if !dryRun {
		found.Object.UID = result.GetUid()
	}
	return found
}

package rollout

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	endpointsv1 "portolan.dev/api/endpoints/v1"
	"portolan.dev/services/kit/apierr"
)

// endpointsTimeout limits how long the endpoint controller may take to answer.
const endpointsTimeout = 5 * time.Second

// Endpoints is the state of the slices of a service, as the endpoint controller knows it.
type Endpoints struct {
	State  State  // Programmed: the slices are as wanted
	Reason string // empty if they are
}

// GetEndpoints asks the endpoint controller whether the slices of a service are as wanted.
func GetEndpoints(ctx context.Context, controller grpc.ClientConnInterface, namespace, name string) Endpoints {
	ctx, cancel := context.WithTimeout(ctx, endpointsTimeout)
	defer cancel()
	answer, err := endpointsv1.NewEndpointControllerServiceClient(controller).ExplainService(ctx, &endpointsv1.ExplainServiceRequest{Namespace: namespace, Name: name})
	failure := answer.GetFailure()
	switch {
	case apierr.IsNotFound(err):
		return Endpoints{Pending, "the endpoint controller has not seen the service yet"}
	case err != nil:
		return Endpoints{Silent, "the endpoint controller did not answer: " + apierr.Describe(err)}
	case failure != nil:
		return Endpoints{Failing, FailureText(failure)}
	case !answer.GetSyncedHere():
		return Endpoints{Silent, "the asked replica of the endpoint controller does not sync the service; portolan get leases shows the replica that does"}
	case answer.GetPending():
		return Endpoints{Pending, "the endpoint controller has not written them yet"}
	default:
		return Endpoints{State: Programmed}
	}
}

// FailureText describes the failure to write the endpoints of a service.
func FailureText(failure *endpointsv1.SyncFailure) string {
	return fmt.Sprintf("since %s the endpoint controller cannot write the endpoints: %s", failure.GetSince().AsTime().UTC().Format(time.RFC3339), failure.GetMessage())
}

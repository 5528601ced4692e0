package rollout_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	endpointsv1 "portolan.dev/api/endpoints/v1"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
)

// controller is a fake endpoint controller.
type controller struct {
	endpointsv1.UnimplementedEndpointControllerServiceServer

	answer *endpointsv1.ExplainServiceResponse
	err    error
}

func (c controller) ExplainService(_ context.Context, req *endpointsv1.ExplainServiceRequest) (*endpointsv1.ExplainServiceResponse, error) {
	if req.GetNamespace() != "shop" || req.GetName() != "web" {
		return nil, apierr.Internal(context.Canceled)
	}
	return c.answer, c.err
}

// TestEndpointsAreAsWantedOnlyIfTheirControllerSaysSo checks the state for each answer of the endpoint controller.
func TestEndpointsAreAsWantedOnlyIfTheirControllerSaysSo(t *testing.T) {
	failure := &endpointsv1.SyncFailure{Since: timestamppb.New(time.Unix(0, 0)), Message: "ports: has 101 entries"}
	for name, c := range map[string]struct {
		controller controller
		state      rollout.State
		reason     string
	}{
		"as wanted": {controller{answer: &endpointsv1.ExplainServiceResponse{SyncedHere: true}}, rollout.Programmed, ""},
		"a write is due": {controller{answer: &endpointsv1.ExplainServiceResponse{SyncedHere: true, Pending: true}}, rollout.Pending,
			"has not written them yet"},
		"refused": {controller{answer: &endpointsv1.ExplainServiceResponse{SyncedHere: true, Pending: true, Failure: failure}}, rollout.Failing,
			"since 1970-01-01T00:00:00Z the endpoint controller cannot write the endpoints: ports: has 101 entries"},
		"a replica that does not sync it": {controller{answer: &endpointsv1.ExplainServiceResponse{}}, rollout.Silent, "does not sync the service"},
		"a service that it has not seen":  {controller{err: apierr.NotFound("Service", "shop/web")}, rollout.Pending, "has not seen the service"},
		"no answer":                       {controller{err: apierr.Unavailable("not yet", time.Second)}, rollout.Silent, "did not answer: not yet"},
	} {
		conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) { endpointsv1.RegisterEndpointControllerServiceServer(s, c.controller) })
		got := rollout.GetEndpoints(t.Context(), conn, "shop", "web")
		if got.State != c.state || !strings.Contains(got.Reason, c.reason) || (got.Reason == "") != (c.reason == "") {
			t.Errorf("%s: %+v, want %q, %q", name, got, c.state, c.reason)
		}
	}
}

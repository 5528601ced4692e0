package explain

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// controller answers ExplainService.
type controller struct {
	endpointsv1.UnimplementedEndpointControllerServiceServer

	answer *endpointsv1.ExplainServiceResponse
}

func (c controller) ExplainService(context.Context, *endpointsv1.ExplainServiceRequest) (*endpointsv1.ExplainServiceResponse, error) {
	return c.answer, nil
}

func service() *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:     &corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	}
}

// checkStep compares a step's state, and looks for texts in its lines and its remedy.
func checkStep(t *testing.T, step Step, state State, texts ...string) {
	t.Helper()
	all := strings.Join(append(step.Lines, step.Remedy), "\n")
	if step.State != state {
		t.Errorf("state %q, want %q:\n%s", step.State, state, all)
	}
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("%q is not said:\n%s", text, all)
		}
	}
}

func TestSelectionSaysThatTheEndpointsCannotBeWritten(t *testing.T) {
	answer := &endpointsv1.ExplainServiceResponse{
		SyncedHere: true,
		Pods:       []*endpointsv1.PodVerdict{{Name: "web-1", Selected: true, Ready: true, Reason: "is ready"}},
	}
	conn := kittest.Conn(t, func(r grpc.ServiceRegistrar) {
		endpointsv1.RegisterEndpointControllerServiceServer(r, controller{answer: answer})
	})
	c := &explainer{Daemons: Daemons{Endpoints: conn}, service: service()}
	checkStep(t, c.selection(t.Context()), OK, "pod web-1 in, ready: is ready")

	answer.Failure = &endpointsv1.SyncFailure{Since: timestamppb.New(time.Unix(0, 0)), Message: "the registry is away"}
	checkStep(t, c.selection(t.Context()), Broken, "since 1970-01-01T00:00:00Z", "the registry is away")
	c.service.Spec.Selector = nil
	checkStep(t, c.selection(t.Context()), Broken, "written by hand", "the registry is away")
	answer.Failure, answer.LeftOut = nil, []string{"10.96.0.1: may not be the cluster IP of a service"}
	checkStep(t, c.selection(t.Context()), Notice, answer.GetLeftOut()...)
	answer.LeftOut, answer.SyncedHere = nil, false
	checkStep(t, c.selection(t.Context()), Unknown, "does not sync the service", "portolan get leases")
}

// sliceList answers ListEndpointSlices.
type sliceList struct {
	registryv1.UnimplementedEndpointSliceServiceServer

	all []*corev1.EndpointSlice
}

func (l sliceList) ListEndpointSlices(context.Context, *registryv1.ListEndpointSlicesRequest) (*registryv1.ListEndpointSlicesResponse, error) {
	return &registryv1.ListEndpointSlicesResponse{EndpointSlices: l.all}, nil
}

func TestSlicesSaysThatNothingUpdatesThoseWithoutSelector(t *testing.T) {
	made := &corev1.EndpointSlice{
		Metadata:  &corev1.ObjectMeta{Name: "web-abc", Labels: map[string]string{object.LabelManagedBy: object.ManagedByController}},
		Endpoints: []*corev1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}
	conn := kittest.Conn(t, func(r grpc.ServiceRegistrar) {
		registryv1.RegisterEndpointSliceServiceServer(r, sliceList{all: []*corev1.EndpointSlice{made}})
	})
	c := &explainer{Daemons: Daemons{Registry: conn}, service: service()}
	checkStep(t, c.slices(t.Context()), OK, "1 endpoints in all, 1 ready")
	c.service.Spec.Selector = nil
	checkStep(t, c.slices(t.Context()), Notice, "nothing updates web-abc")
}

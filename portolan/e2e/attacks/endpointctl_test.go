package attacks

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// TestControllerCannotTouchObjectsOfOthers overwrites and deletes an Endpoints and an EndpointSlice
// that people wrote, and takes the Lease of another controller, with the certificate of the endpoint
// controller.
func TestControllerCannotTouchObjectsOfOthers(t *testing.T) {
	i := install(t)
	operator, stolen := i.Conn, i.DialAs(i.Issue("endpointctl", time.Hour), identity.Registry, i.RegistryAt())
	meta := func(name string) *corev1.ObjectMeta { return &corev1.ObjectMeta{Name: name, Namespace: "default"} }
	own := func(key, value string) *corev1.ObjectMeta {
		return &corev1.ObjectMeta{Name: "hand-made", Namespace: "default", Labels: map[string]string{key: value}}
	}
	evil := []*corev1.EndpointSubset{{Addresses: []*corev1.EndpointAddress{{Ip: "10.64.6.6"}}}}
	slice := func(m *corev1.ObjectMeta) *corev1.EndpointSlice {
		return &corev1.EndpointSlice{Metadata: m, AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4}
	}
	endpoints, slices := registryv1.NewEndpointsServiceClient(stolen), registryv1.NewEndpointSliceServiceClient(stolen)
	leases := registryv1.NewLeaseServiceClient(stolen)
	written, err := registryv1.NewEndpointsServiceClient(operator).CreateEndpoints(t.Context(), &registryv1.CreateEndpointsRequest{Endpoints: &corev1.Endpoints{
		Metadata: meta("hand-made"), Subsets: []*corev1.EndpointSubset{{Addresses: []*corev1.EndpointAddress{{Ip: "10.64.0.7"}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registryv1.NewEndpointSliceServiceClient(operator).CreateEndpointSlice(t.Context(), &registryv1.CreateEndpointSliceRequest{EndpointSlice: slice(meta("hand-made"))}); err != nil {
		t.Fatal(err)
	}
	if _, err := registryv1.NewLeaseServiceClient(operator).CreateLease(t.Context(), &registryv1.CreateLeaseRequest{Lease: &corev1.Lease{
		Metadata: meta("other-controller"), Spec: &corev1.LeaseSpec{HolderIdentity: "its-leader", LeaseDurationSeconds: 3600},
	}}); err != nil {
		t.Fatal(err)
	}
	for what, attempt := range map[string]func(context.Context) error{
		"an Endpoints": func(ctx context.Context) error {
			_, err := endpoints.UpdateEndpoints(ctx, &registryv1.UpdateEndpointsRequest{Endpoints: &corev1.Endpoints{Metadata: meta("hand-made"), Subsets: evil}})
			return err
		},
		"an Endpoints as its own": func(ctx context.Context) error {
			_, err := endpoints.UpdateEndpoints(ctx, &registryv1.UpdateEndpointsRequest{Endpoints: &corev1.Endpoints{
				Metadata: own(object.LabelEndpointsManagedBy, object.ManagedByEndpoints), Subsets: evil,
			}})
			return err
		},
		"a new Endpoints of somebody": func(ctx context.Context) error {
			_, err := endpoints.CreateEndpoints(ctx, &registryv1.CreateEndpointsRequest{Endpoints: &corev1.Endpoints{Metadata: meta("new"), Subsets: evil}})
			return err
		},
		"the deletion of an Endpoints": func(ctx context.Context) error {
			_, err := endpoints.DeleteEndpoints(ctx, &registryv1.DeleteEndpointsRequest{Name: "hand-made"})
			return err
		},
		"a slice as its own": func(ctx context.Context) error {
			_, err := slices.UpdateEndpointSlice(ctx, &registryv1.UpdateEndpointSliceRequest{EndpointSlice: slice(own(object.LabelManagedBy, object.ManagedByController))})
			return err
		},
		"the deletion of a slice": func(ctx context.Context) error {
			_, err := slices.DeleteEndpointSlice(ctx, &registryv1.DeleteEndpointSliceRequest{Name: "hand-made"})
			return err
		},
		"the Lease of another controller": func(ctx context.Context) error {
			_, err := leases.UpdateLease(ctx, &registryv1.UpdateLeaseRequest{Lease: &corev1.Lease{
				Metadata: meta("other-controller"), Spec: &corev1.LeaseSpec{HolderIdentity: "thief", LeaseDurationSeconds: 3600},
			}})
			return err
		},
		"a Lease that another controller will want": func(ctx context.Context) error {
			_, err := leases.CreateLease(ctx, &registryv1.CreateLeaseRequest{Lease: &corev1.Lease{Metadata: meta("later-controller"), Spec: &corev1.LeaseSpec{HolderIdentity: "thief"}}})
			return err
		},
		"the deletion of a Lease": func(ctx context.Context) error {
			_, err := leases.DeleteLease(ctx, &registryv1.DeleteLeaseRequest{Name: "other-controller"})
			return err
		},
	} {
		if err := attempt(t.Context()); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	found, err := registryv1.NewEndpointsServiceClient(operator).GetEndpoints(t.Context(), &registryv1.GetEndpointsRequest{Name: "hand-made"})
	if err != nil || !proto.Equal(found.GetEndpoints(), written.GetEndpoints()) {
		t.Errorf("the Endpoints is now %v, %v", found.GetEndpoints(), err)
	}
}

package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
)

// report reports addresses of a pod as the agent of its node does.
func (r *replica) report(t *testing.T, name string, ips ...string) error {
	t.Helper()
	_, err := r.pods.UpdatePodStatus(within(t), &registryv1.UpdatePodStatusRequest{Pod: &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: name},
		Status:   &corev1.PodStatus{PodIp: ips[0], PodIps: ips},
	}})
	return err
}

func TestAPodMayNotHaveTheClusterIPOfAService(t *testing.T) {
	_, r := run(t, dual)
	db := r.create(t, web("db", func(svc *corev1.Service) {
		svc.Spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK
	}))
	if _, err := r.pods.CreatePod(within(t), &registryv1.CreatePodRequest{Pod: &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: "web-1"}}}); err != nil {
		t.Fatal(err)
	}
	ips := db.GetSpec().GetClusterIps()
	for name, c := range map[string]struct {
		ips   []string
		field string
	}{
		"alone":             {ips[:1], "status.podIPs[0]"},
		"as the second one": {[]string{"10.0.0.1", ips[1]}, "status.podIPs[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			found := apierr.ViolationsOf(r.report(t, "web-1", c.ips...))
			if len(found) != 1 || found[0].Field != c.field || !strings.Contains(found[0].Message, "default/db") {
				t.Errorf("violations are %v, want one of %s that names the service", found, c.field)
			}
		})
	}
	if err := r.report(t, "web-1", "10.0.0.1", "fd00::1"); err != nil {
		t.Errorf("addresses of its own: %v", err)
	}
}

func TestPeopleMayNotUseTheLabelsOfTheController(t *testing.T) {
	_, r := run(t)
	slice := func(managedBy string) *corev1.EndpointSlice {
		return &corev1.EndpointSlice{
			Metadata: &corev1.ObjectMeta{Name: "by-hand", Labels: map[string]string{
				"kubernetes.io/service-name": "db", "endpointslice.kubernetes.io/managed-by": managedBy,
			}},
			AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4, Endpoints: []*corev1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		}
	}
	create := func(ctx context.Context, managedBy string) (*registryv1.CreateEndpointSliceResponse, error) {
		return r.slices.CreateEndpointSlice(ctx, &registryv1.CreateEndpointSliceRequest{EndpointSlice: slice(managedBy)})
	}
	field := "metadata.labels[endpointslice.kubernetes.io/managed-by]"
	for _, value := range []string{"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"} {
		_, err := create(within(t), value)
		if found := apierr.ViolationsOf(err); len(found) != 1 || found[0].Field != field || !strings.Contains(found[0].Message, `"staff"`) {
			t.Errorf("create with %s: %v, want a violation of %s with the remedy", value, err, field)
		}
	}
	reserved, err := create(within(t), "controller")
	if err != nil || len(reserved.GetWarnings()) != 1 || !strings.Contains(reserved.GetWarnings()[0], "reserved") {
		t.Errorf("create with the reserved value: %v, warnings %q", err, reserved.GetWarnings())
	}
	if _, err := r.slices.UpdateEndpointSlice(within(t), &registryv1.UpdateEndpointSliceRequest{EndpointSlice: slice("staff")}); err != nil {
		t.Fatal(err)
	}
	_, err = r.slices.UpdateEndpointSlice(within(t), &registryv1.UpdateEndpointSliceRequest{EndpointSlice: slice("endpointslice-controller.k8s.io")})
	if found := apierr.ViolationsOf(err); len(found) != 1 || found[0].Field != field {
		t.Errorf("update to the controller's label: %v, want a violation of %s", err, field)
	}
	_, err = r.endpoints.CreateEndpoints(within(t), &registryv1.CreateEndpointsRequest{Endpoints: &corev1.Endpoints{
		Metadata: &corev1.ObjectMeta{Name: "db", Labels: map[string]string{"endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
	}})
	if found := apierr.ViolationsOf(err); len(found) != 1 || found[0].Field != "metadata.labels[endpoints.kubernetes.io/managed-by]" {
		t.Errorf("Endpoints with the controller's label: %v", err)
	}

	if _, err := r.slices.DeleteEndpointSlice(within(t), &registryv1.DeleteEndpointSliceRequest{Name: "by-hand"}); err != nil {
		t.Fatal(err)
	}
	lease, err := r.leases.CreateLease(within(t), &registryv1.CreateLeaseRequest{Lease: &corev1.Lease{
		Metadata: &corev1.ObjectMeta{Name: "endpointctl"}, Spec: &corev1.LeaseSpec{HolderIdentity: "me", LeaseDurationSeconds: 15},
	}})
	if err != nil {
		t.Fatal(err)
	}
	fenced := metadata.AppendToOutgoingContext(within(t), "portolan-fence", fmt.Sprintf("default/endpointctl=%d", lease.GetLease().GetSpec().GetEpoch()))
	if _, err := create(fenced, "endpointslice-controller.k8s.io"); err != nil {
		t.Errorf("create by the controller, whose writes name its lease: %v", err)
	}
	changed, err := r.slices.UpdateEndpointSlice(within(t), &registryv1.UpdateEndpointSliceRequest{EndpointSlice: func() *corev1.EndpointSlice {
		s := slice("endpointslice-controller.k8s.io")
		s.Endpoints[0].Addresses[0] = "10.0.0.2"
		return s
	}()})
	if err != nil || len(changed.GetWarnings()) != 1 || !strings.Contains(changed.GetWarnings()[0], "selector") {
		t.Errorf("a person changes the controller's slice: %v, warnings %q, want one", err, changed.GetWarnings())
	}
}

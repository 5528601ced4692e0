package attacks

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// TestLBCtlChangesLoadBalancersOnly tries to change fields of a service that are not lbctl's, and other
// objects, with the certificate of lbctl. A field that lbctl may change loses its former owner. lbctl cannot
// set the owners of fields.
func TestLBCtlChangesLoadBalancersOnly(t *testing.T) {
	i := install(t)
	owner := func(fields string) []*corev1.ManagedFields {
		return []*corev1.ManagedFields{{
			Manager: "apply", Operation: corev1.ManagedFieldsOperation_MANAGED_FIELDS_OPERATION_APPLY, ApiVersion: "v1", FieldsV1: []byte(`{` + fields + `"f:spec":{"f:type":{}}}`),
		}}
	}
	stolen := i.DialAs(i.Issue("lbctl", time.Hour), identity.Registry, i.RegistryAt())
	operator, services := registryv1.NewServiceServiceClient(i.Conn), registryv1.NewServiceServiceClient(stolen)
	created, err := operator.CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
		Metadata: &corev1.ObjectMeta{
			Name: "web", Namespace: "default", Finalizers: []string{"example.com/others"}, Annotations: map[string]string{object.AnnotationBalancerProvider: "x"},
			ManagedFields: owner(`"f:metadata":{"f:annotations":{"f:` + object.AnnotationBalancerProvider + `":{}}},`),
		},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, Ports: []*corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "web"},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	update := func(change func(*corev1.Service)) func(context.Context) error {
		return func(ctx context.Context) error {
			svc := created.GetService().CloneVT()
			change(svc)
			_, err := services.UpdateService(ctx, &registryv1.UpdateServiceRequest{Service: svc})
			return err
		}
	}
	lease := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := registryv1.NewLeaseServiceClient(stolen).CreateLease(ctx, &registryv1.CreateLeaseRequest{Lease: &corev1.Lease{
				Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default"}, Spec: &corev1.LeaseSpec{HolderIdentity: "thief"},
			}})
			return err
		}
	}
	for what, attempt := range map[string]func(context.Context) error{
		"the selector":            update(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "evil"} }),
		"external IPs":            update(func(s *corev1.Service) { s.Spec.ExternalIps = []string{"198.51.100.1"} }),
		"an annotation":           update(func(s *corev1.Service) { s.Metadata.Annotations = map[string]string{"example.com/x": "y"} }),
		"the finalizer of others": update(func(s *corev1.Service) { s.Metadata.Finalizers = nil }),
		"a condition of others": func(ctx context.Context) error {
			svc := created.GetService().CloneVT()
			svc.Status = &corev1.ServiceStatus{Conditions: []*corev1.Condition{{Type: "example.com/Mine", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE, Reason: "X"}}}
			_, err := services.UpdateServiceStatus(ctx, &registryv1.UpdateServiceStatusRequest{Service: svc})
			return err
		},
		"a new service": func(ctx context.Context) error {
			_, err := services.CreateService(ctx, &registryv1.CreateServiceRequest{Service: &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "other"}}})
			return err
		},
		"the deletion": func(ctx context.Context) error {
			_, err := services.DeleteService(ctx, &registryv1.DeleteServiceRequest{Name: "web"})
			return err
		},
		"the Lease of endpointctl": lease("endpointctl"),
		"a Lease of a registry":    lease("portolan-reserve-x"),
		"an Event in another name": func(ctx context.Context) error {
			_, err := registryv1.NewEventServiceClient(stolen).CreateEvent(ctx, &registryv1.CreateEventRequest{Event: &corev1.Event{
				Metadata: &corev1.ObjectMeta{Name: "e", Namespace: "default"}, Reason: "X", ReportingComponent: "endpointctl",
				Regarding: &corev1.ObjectReference{Kind: "Service", Name: "web", Namespace: "default"},
			}})
			return err
		},
	} {
		if err := attempt(t.Context()); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	now, err := operator.GetService(t.Context(), &registryv1.GetServiceRequest{Name: "web"})
	if err != nil || !proto.Equal(now.GetService(), created.GetService()) {
		t.Errorf("the service is now %v, %v", now.GetService(), err)
	}
	if err := update(func(s *corev1.Service) {
		s.Metadata.Finalizers = append(s.Metadata.Finalizers, object.FinalizerLoadBalancer)
		s.Metadata.Annotations = map[string]string{object.AnnotationBalancerProvider: "portolan.dev/pool"}
		s.Metadata.ManagedFields = owner(`"f:metadata":{"f:finalizers":{}},`)
	})(t.Context()); err != nil {
		t.Errorf("its own finalizer and annotation: %v", err)
	}
	now, err = operator.GetService(t.Context(), &registryv1.GetServiceRequest{Name: "web"})
	if entries := now.GetService().GetMetadata().GetManagedFields(); err != nil || len(entries) != 1 || string(entries[0].GetFieldsV1()) != string(owner("")[0].GetFieldsV1()) {
		t.Errorf("owners %v, %v", entries, err)
	}
}

// TestLBCtlClaimsBalancerAddressesOnly claims, confirms and releases values of all uses at the
// allocator with the certificate of lbctl.
func TestLBCtlClaimsBalancerAddressesOnly(t *testing.T) {
	i := install(t)
	operator := registryv1.NewServiceServiceClient(i.Conn)
	created, err := operator.CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	allocator := allocatorv1.NewAllocatorServiceClient(i.DialAs(i.Issue("lbctl", time.Hour), identity.Allocator, i.AllocatorAt()))
	uid := created.GetService().GetMetadata().GetUid()
	claim := func(use allocatorv1.Use, slot string) error {
		_, err := allocator.Allocate(t.Context(), &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{{
			Owner: &allocatorv1.Owner{Uid: uid, Kind: "Service", Namespace: "default", Name: "web"}, Claims: []*allocatorv1.Claim{{Use: use, Slot: slot}},
		}}})
		return err
	}
	release := func(slots ...string) error {
		_, err := allocator.Release(t.Context(), &allocatorv1.ReleaseRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: uid, Slots: slots}}})
		return err
	}
	confirm := func(slots ...string) error {
		_, err := allocator.Confirm(t.Context(), &allocatorv1.ConfirmRequest{Owners: []*allocatorv1.OwnerSlots{{OwnerUid: uid, Slots: slots}}})
		return err
	}
	reserve := func() error {
		_, err := allocator.Reserve(t.Context(), &allocatorv1.ReserveRequest{Holder: "portolan-reserve-x"})
		return err
	}
	for what, err := range map[string]error{
		"a virtual IP":                    claim(allocatorv1.Use_USE_CLUSTER_IP, "loadBalancer/ipv4"),
		"a node port":                     claim(allocatorv1.Use_USE_NODE_PORT, "loadBalancer/ipv4"),
		"an address in another slot":      claim(allocatorv1.Use_USE_LOAD_BALANCER_IP, "clusterIPs/IPv4"),
		"the release of everything":       release(),
		"the release of a virtual IP":     release("clusterIPs/IPv4"),
		"the confirmation of everything":  confirm(),
		"the confirmation of a node port": confirm("loadBalancer/ipv4", "nodePort/http"),
		"a reserve":                       reserve(),
	} {
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := claim(allocatorv1.Use_USE_LOAD_BALANCER_IP, "loadBalancer/ipv4"); err != nil {
		t.Errorf("a load-balancer address: %v", err)
	}
}

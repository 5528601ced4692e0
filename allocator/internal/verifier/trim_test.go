package verifier

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// withStatus gives a service the status that lbctl writes. The first entry has a name instead of an address, as some
// providers give.
func withStatus(svc *corev1.Service) *corev1.Service {
	svc.Status = &corev1.ServiceStatus{
		Conditions: []*corev1.Condition{{Type: object.ConditionLoadBalancer, Reason: "Ensured", Message: "by the provider portolan.dev/pool"}},
		LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{
			{Hostname: "lb.example"}, {Ip: "10.98.0.1", IpMode: corev1.IPMode_IP_MODE_VIP}, {Ip: "2001:db8::1", IpMode: corev1.IPMode_IP_MODE_VIP},
		}},
	}
	return svc
}

func TestTrimKeepsWhatTheVerifierReads(t *testing.T) {
	meta := func() *corev1.ObjectMeta {
		return &corev1.ObjectMeta{Namespace: "default", Name: "a", Uid: "u", ResourceVersion: 7, Labels: map[string]string{"app": "a"}, Annotations: map[string]string{"note": "long"}}
	}
	shared := func(annotation string) *corev1.ObjectMeta {
		m := meta()
		m.Annotations[annotation], m.Finalizers = "key", []string{object.FinalizerLoadBalancer}
		return m
	}
	ports := []*corev1.ServicePort{{Name: "http", Port: 80}, {Name: "dns", Port: 53, Protocol: corev1.Protocol_PROTOCOL_UDP, NodePort: 30053}}
	service := &corev1.ServiceSpec{
		Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, ClusterIp: "10.0.0.1", ClusterIps: []string{"10.0.0.1", "fd00::1"}, Selector: map[string]string{"app": "a"},
		Ports: ports, HealthCheckNodePort: 30080,
	}
	withoutNodePorts := proto.CloneOf(service)
	withoutNodePorts.Ports = ports[:1]
	all := map[string]object.Object{
		"service":            &corev1.Service{Metadata: meta(), Spec: service},
		"without node ports": &corev1.Service{Metadata: meta(), Spec: withoutNodePorts},
		"without a spec":     &corev1.Service{Metadata: meta()},
		"load balancer":      withStatus(&corev1.Service{Metadata: meta(), Spec: service}),
		"shared addresses":   withStatus(&corev1.Service{Metadata: shared(object.AnnotationBalancerShare), Spec: service}),
		"shared, older name": withStatus(&corev1.Service{Metadata: shared(object.AnnotationBalancerShareOlder), Spec: service}),
		"pod":                &corev1.Pod{Metadata: meta(), Spec: &corev1.PodSpec{NodeName: "n1"}, Status: &corev1.PodStatus{PodIps: []string{"10.1.0.1"}}},
		"node":               &corev1.Node{Metadata: meta(), Status: &corev1.NodeStatus{Addresses: []*corev1.NodeAddress{{Address: "192.0.2.1"}}}},
		"lease of a reserve": &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: spec.ReserveLeasePrefix + "a", Uid: "u", Labels: map[string]string{"app": "a"}}},
		"lease":              &corev1.Lease{Metadata: meta(), Spec: &corev1.LeaseSpec{HolderIdentity: "a"}},
	}
	for name, o := range all {
		t.Run(name, func(t *testing.T) {
			trimmed := object.Clone(o)
			Trim(trimmed)
			if diff := cmp.Diff(valuesOf(o), valuesOf(trimmed), cmp.AllowUnexported(objectValue{})); diff != "" {
				t.Errorf("values: %s", diff)
			}
			if diff := cmp.Diff(ownerOfValue(o, balancerIP), ownerOfValue(trimmed, balancerIP)); diff != "" {
				t.Errorf("owner of load-balancer addresses: %s", diff)
			}
			if svc, ok := o.(*corev1.Service); ok && spec.HasBalancerFinalizer(svc) != spec.HasBalancerFinalizer(trimmed.(*corev1.Service)) {
				t.Error("the finalizer differs")
			}
			if node, ok := trimmed.(*corev1.Node); ok {
				if diff := cmp.Diff(o.(*corev1.Node).GetStatus(), node.GetStatus(), protocmp.Transform()); diff != "" {
					t.Errorf("addresses: %s", diff)
				}
			}
			if object.KeyOf(trimmed) != object.KeyOf(o) || trimmed.GetMetadata().GetUid() != "u" || Keeps(trimmed) != Keeps(o) {
				t.Errorf("identity: %v", trimmed)
			}
			if size, of := proto.Size(trimmed), proto.Size(o); size >= of {
				t.Errorf("%d bytes of %d", size, of)
			}
		})
	}
}

package spec_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

const (
	v4 = corev1.IPFamily_IP_FAMILY_IPV4
	v6 = corev1.IPFamily_IP_FAMILY_IPV6

	single  = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_SINGLE_STACK
	prefer  = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_PREFER_DUAL_STACK
	require = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK

	clusterIP    = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP
	nodePort     = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
	loadBalancer = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
	externalName = corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME

	tcp  = corev1.Protocol_PROTOCOL_TCP
	udp  = corev1.Protocol_PROTOCOL_UDP
	sctp = corev1.Protocol_PROTOCOL_SCTP

	local   = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	cluster = corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER
)

var (
	singleStack = []corev1.IPFamily{v4}
	dualStack   = []corev1.IPFamily{v4, v6}
)

// web returns a valid service as a client would send it.
func web(changes ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web"},
		Spec: &corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []*corev1.ServicePort{{Name: "http", Port: 80, TargetPort: number(9376)}},
		},
	}
	for _, change := range changes {
		change(svc)
	}
	return svc
}

func number(n int32) *corev1.IntOrString {
	return &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: n}}
}

func named(name string) *corev1.IntOrString {
	return &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: name}}
}

// ofType and the functions after it return the usual changes of web.
func ofType(t corev1.ServiceType) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.Type = t
		if t == externalName {
			svc.Spec.ExternalName = "db.example.com"
		}
	}
}

func onIP(ips ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.ClusterIp, svc.Spec.ClusterIps = ips[0], ips }
}

func headless(svc *corev1.Service)     { svc.Spec.ClusterIp = object.ClusterIPNone }
func withoutPorts(svc *corev1.Service) { svc.Spec.Ports = nil }
func byHand(svc *corev1.Service)       { svc.Spec.Selector = nil }

// admit runs the registry's steps for a new object, up to allocation.
func admit(o object.Object, families []corev1.IPFamily, rules spec.Rules) apierr.Violations {
	kinds.Of(o).Default(o)
	kinds.Of(o).PrepareCreate(o)
	if svc, ok := o.(*corev1.Service); ok {
		if violations := spec.ResolveFamilies(svc, nil, families); len(violations) > 0 {
			return violations
		}
	}
	return kinds.Of(o).Validate(o, rules)
}

// admitUpdate runs the registry's steps for an update, up to allocation.
func admitUpdate(updated, old object.Object, families []corev1.IPFamily) apierr.Violations {
	kinds.Of(updated).Default(updated)
	kinds.Of(updated).PrepareUpdate(updated, old)
	if svc, ok := updated.(*corev1.Service); ok {
		if violations := spec.ResolveFamilies(svc, old.(*corev1.Service), families); len(violations) > 0 {
			return violations
		}
	}
	return kinds.Of(updated).ValidateUpdate(updated, old, spec.Rules{})
}

// allocate sets the values that the allocator would set.
func allocate(svc *corev1.Service) *corev1.Service {
	s := svc.Spec
	if object.NeedsClusterIP(svc) {
		free := map[corev1.IPFamily]string{v4: "10.96.0.10", v6: "fd00::10"}
		for _, family := range s.IpFamilies[len(s.ClusterIps):] {
			s.ClusterIps = append(s.ClusterIps, free[family])
		}
		s.ClusterIp = s.ClusterIps[0]
	}
	if spec.NeedsNodePorts(svc) {
		for i, port := range s.Ports {
			if port.NodePort == 0 {
				port.NodePort = 30100 + int32(i)
			}
		}
	}
	if spec.NeedsHealthCheckNodePort(svc) && s.HealthCheckNodePort == 0 {
		s.HealthCheckNodePort = 30999
	}
	svc.Metadata.Uid, svc.Metadata.ResourceVersion = "uid-1", 7
	return svc
}

// stored returns a service as the registry stores it.
func stored(t *testing.T, families []corev1.IPFamily, changes ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	svc := web(changes...)
	if violations := admit(svc, families, spec.Rules{}); len(violations) > 0 {
		t.Fatalf("the stored service is not valid: %s", violations)
	}
	return allocate(svc)
}

// expect compares violations with want, in the form "field REASON", in any order.
func expect(t *testing.T, got apierr.Violations, want ...string) {
	t.Helper()
	have := make([]string, len(got))
	for i, v := range got {
		have[i] = v.Field + " " + v.Reason
		if v.Message == "" {
			t.Errorf("%s has no message", v.Field)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("violations:\n  got  %s\n  want %s\n%s", strings.Join(have, ", "), strings.Join(want, ", "), got)
	}
}

func protoValue(m proto.Message) protoreflect.Value {
	return protoreflect.ValueOfMessage(m.ProtoReflect())
}

package balancer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

var began = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func condition(typ string, status corev1.ConditionStatus, reason, message string) *corev1.Condition {
	return &corev1.Condition{Type: typ, Status: status, Reason: reason, Message: message, LastTransitionTime: timestamppb.New(began)}
}

func service(provider string, conditions []*corev1.Condition, ingress ...*corev1.LoadBalancerIngress) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web", Annotations: map[string]string{object.AnnotationBalancerProvider: provider}},
		Spec:     &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER},
		Status:   &corev1.ServiceStatus{Conditions: conditions, LoadBalancer: &corev1.LoadBalancerStatus{Ingress: ingress}},
	}
}

func ofEdges(svc *corev1.Service) *corev1.Service {
	svc.Spec.LoadBalancerClass = proto.String(spec.EdgeClass)
	return svc
}

func TestSentences(t *testing.T) {
	const yes, no = corev1.ConditionStatus_CONDITION_STATUS_TRUE, corev1.ConditionStatus_CONDITION_STATUS_FALSE
	ensured := condition(object.ConditionLoadBalancer, yes, "Ensured", "by the provider")
	byNodes := func(ip string) *corev1.LoadBalancerIngress {
		return &corev1.LoadBalancerIngress{Ip: ip, IpMode: corev1.IPMode_IP_MODE_VIP}
	}
	pools := NewPools([]*allocatorv1.Pool{
		{Name: "inside", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "203.0.0.0/16"}, {Name: "ports", Use: allocatorv1.Use_USE_NODE_PORT, Range: "30000-32767"},
		{Name: "public", Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Range: "203.0.113.0/24"},
	})
	for name, test := range map[string]struct {
		svc     *corev1.Service
		summary string
		want    []string
	}{
		"announced": {service(builtin, []*corev1.Condition{ensured, condition(object.ConditionAnnounced, yes, "Announced",
			spec.AnnouncedMessage([]spec.Announced{{Address: "203.0.113.7", Node: "n1"}}))}, byNodes("203.0.113.7")), "Ensured", []string{
			"203.0.113.7 comes from the pool public of the provider portolan.dev/pool, and the nodes serve it.",
			"Node n1 announces 203.0.113.7 (since 12:00).",
		}},
		"not announced, of a pool that is not known": {service(builtin, []*corev1.Condition{ensured, condition(object.ConditionAnnounced, no, "NoEligibleNode",
			spec.AnnouncedMessage([]spec.Announced{{Address: "198.51.100.7", Why: "no node agent is connected"}}))}, byNodes("198.51.100.7")), "Ensured", []string{
			"198.51.100.7 comes from the provider portolan.dev/pool, and the nodes serve it.",
			"Not all its addresses are announced: nobody announces 198.51.100.7: no node agent is connected (since 12:00).",
		}},
		"of edges": {ofEdges(service(spec.EdgeClass, []*corev1.Condition{ensured}, &corev1.LoadBalancerIngress{Ip: "203.0.113.8", IpMode: corev1.IPMode_IP_MODE_PROXY})), "Ensured", []string{
			"203.0.113.8 comes from the pool public of the provider portolan.dev/edge, and edges on the nodes serve it.",
		}},
		"of another provider, which lacks a port": {service("example.com/metal", []*corev1.Condition{ensured}, &corev1.LoadBalancerIngress{
			Hostname: "lb.example.com", Ports: []*corev1.PortStatus{
				{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP},
				{Port: 53, Protocol: corev1.Protocol_PROTOCOL_UDP, Error: proto.String("MixedProtocolNotSupported")},
			},
		}), "port 53/UDP: MixedProtocolNotSupported", []string{
			"lb.example.com comes from the provider example.com/metal, which passes the traffic to the nodes.",
			"It is not set up at lb.example.com for port 53/UDP: MixedProtocolNotSupported.",
		}},
		"pending": {service("example.com/metal", []*corev1.Condition{condition(object.ConditionLoadBalancer, no, "NoAddress", "the pool public is full")}), "NoAddress", []string{
			"It has no external address yet: the pool public is full (since 12:00).",
		}},
		"an old address, and a change that fails": {service(builtin, []*corev1.Condition{condition(object.ConditionLoadBalancer, no, "Refused", "203.0.113.9 belongs to shop/web")}, byNodes("203.0.113.7")), "Refused", []string{
			"203.0.113.7 comes from the pool public of the provider portolan.dev/pool, and the nodes serve it.",
			"It is not as the service wants it: 203.0.113.9 belongs to shop/web (since 12:00).",
		}},
	} {
		s := Of(test.svc, pools)
		if got := s.Sentences(func(at time.Time) string { return at.Format("15:04") }); !slices.Equal(got, test.want) || s.Summary() != test.summary {
			t.Errorf("%s: %q\n%s\nwant %q\n%s", name, s.Summary(), strings.Join(got, "\n"), test.summary, strings.Join(test.want, "\n"))
		}
	}
	if got := Of(service("", nil), pools).Sentences(nil); len(got) != 1 || !strings.HasPrefix(got[0], "It has no external address yet: lbctl, which") {
		t.Errorf("a service that lbctl has not seen: %q", got)
	}
}

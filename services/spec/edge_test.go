package spec

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
)

// TestEdgeAddresses checks which load-balancer addresses edges serve.
func TestEdgeAddresses(t *testing.T) {
	ingress := []*corev1.LoadBalancerIngress{
		{Ip: "192.0.2.1", IpMode: corev1.IPMode_IP_MODE_PROXY}, {Ip: "192.0.2.1", IpMode: corev1.IPMode_IP_MODE_PROXY},
		{Ip: "192.0.2.2", IpMode: corev1.IPMode_IP_MODE_VIP}, {Hostname: "lb.example.com"}, {Ip: "fd00::1", IpMode: corev1.IPMode_IP_MODE_PROXY},
	}
	for _, c := range []struct {
		name, class string
		typ         corev1.ServiceType
		want        string
	}{
		{"class of edges", balancer.ClassEdge, corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, "[192.0.2.1 fd00::1]"},
		{"another class", "example.com/other", corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, "[]"},
		{"another type", balancer.ClassEdge, corev1.ServiceType_SERVICE_TYPE_NODE_PORT, "[]"},
	} {
		svc := &corev1.Service{
			Spec:   &corev1.ServiceSpec{Type: c.typ, LoadBalancerClass: proto.String(c.class)},
			Status: &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: ingress}},
		}
		if got := fmt.Sprint(EdgeAddresses(svc)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

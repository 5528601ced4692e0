package explain

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestLoadBalancersAreExplained checks the step about the load balancer of a service while it waits,
// when it has an address, and when no node announces that. None of it breaks the chain.
func TestLoadBalancersAreExplained(t *testing.T) {
	const yes, no = corev1.ConditionStatus_CONDITION_STATUS_TRUE, corev1.ConditionStatus_CONDITION_STATUS_FALSE
	conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) {
		allocatorv1.RegisterAllocatorServiceServer(s, &fakeAllocator{pools: []*allocatorv1.Pool{
			{Name: "public", Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Range: "203.0.113.0/24"},
		}})
	})
	address := []*corev1.LoadBalancerIngress{{Ip: "203.0.113.7", IpMode: corev1.IPMode_IP_MODE_VIP}}
	for name, test := range map[string]struct {
		ingress    []*corev1.LoadBalancerIngress
		conditions []*corev1.Condition
		state      State
		want       string
	}{
		"not seen": {nil, nil, Notice, "It has no external address yet: lbctl, which"},
		"waiting": {nil, []*corev1.Condition{{Type: object.ConditionLoadBalancer, Status: no, Reason: "NoAddress", Message: "the pool is full"}},
			Notice, "It has no external address yet: the pool is full."},
		"announced": {address, []*corev1.Condition{
			{Type: object.ConditionLoadBalancer, Status: yes}, {Type: object.ConditionAnnounced, Status: yes, Message: "node n1 announces 203.0.113.7"},
		}, OK, "203.0.113.7 comes from the pool public of the provider portolan.dev/pool, and the nodes serve it.\nNode n1 announces 203.0.113.7."},
		"not announced": {address, []*corev1.Condition{
			{Type: object.ConditionLoadBalancer, Status: yes}, {Type: object.ConditionAnnounced, Status: no, Message: "nobody announces 203.0.113.7: no node agent is connected"},
		}, Notice, "Not all its addresses are announced: nobody announces 203.0.113.7: no node agent is connected."},
		"of edges": {[]*corev1.LoadBalancerIngress{{Ip: "203.0.113.7", IpMode: corev1.IPMode_IP_MODE_PROXY}}, []*corev1.Condition{
			{Type: object.ConditionLoadBalancer, Status: yes}, {Type: object.ConditionAnnounced, Status: no, Message: "nobody announces 203.0.113.7: no edge serves it"},
		}, Notice, "203.0.113.7 comes from the pool public of the provider portolan.dev/edge, and edges serve it.\nNot all its addresses are announced: nobody announces 203.0.113.7: no edge serves it."},
		"changed in vain": {address, []*corev1.Condition{{Type: object.ConditionLoadBalancer, Status: no, Message: "refused"}}, Notice, "It is not as the service wants it: refused."},
	} {
		svc := withValues("web", "10.96.0.1", 30001)
		svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
		svc.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: test.ingress}, Conditions: test.conditions}
		if len(test.ingress) > 0 && test.ingress[0].IpMode == corev1.IPMode_IP_MODE_PROXY {
			svc.Spec.LoadBalancerClass = proto.String("portolan.dev/edge")
		}
		c := &explainer{Daemons: Daemons{Allocator: conn}, service: svc}
		if step := c.balancer(t.Context()); step.State != test.state || !strings.Contains(strings.Join(step.Lines, "\n"), test.want) {
			t.Errorf("%s: %s %q, want %s with %q", name, step.State, step.Lines, test.state, test.want)
		}
	}
}

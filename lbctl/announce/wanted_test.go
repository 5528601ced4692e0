package announce

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	settings "portolan.dev/services/balancer"
	"portolan.dev/services/kit/guard/guardtest"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// TestBuild checks which addresses are wanted, and which nodes may announce them.
func TestBuild(t *testing.T) {
	nodes := []*corev1.Node{
		nodeObject("n1", map[string]string{"edge": "yes"}), nodeObject("n2", nil),
		nodeObject("out", map[string]string{"node.kubernetes.io/exclude-from-external-load-balancers": ""}), nodeObject("gone", nil, "ToBeDeletedByClusterAutoscaler"), nodeObject("tainted", nil, "gpu"),
	}
	yes, no := true, false
	ready := func(node string) *corev1.Endpoint { return &corev1.Endpoint{NodeName: &node} }
	unready := func(node string) *corev1.Endpoint {
		return &corev1.Endpoint{NodeName: &node, Conditions: &corev1.EndpointConditions{Ready: &no}}
	}
	leaving := func(node string) *corev1.Endpoint {
		return &corev1.Endpoint{NodeName: &node, Conditions: &corev1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}}
	}
	for _, c := range []struct {
		name      string
		services  []*corev1.Service
		endpoints map[string][]*corev1.Endpoint
		selector  string
		want      string
	}{
		{"policy Cluster", []*corev1.Service{balancer("a", false, "192.0.2.1", "fd00::1")}, nil, "",
			"192.0.2.1 default/a [n1 n2 tainted]\nfd00::1 default/a [n1 n2 tainted]\n"},
		{"another type, no address, a host name, ipMode Proxy", []*corev1.Service{
			{Metadata: &corev1.ObjectMeta{Name: "n"}, Spec: &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_NODE_PORT}, Status: balancer("n", false, "192.0.2.1").GetStatus()},
			balancer("none", false), balancer("host", false, ""), proxied(balancer("proxied", false, "192.0.2.9"))}, nil, "", ""},
		{"edges serve it, under both policies", []*corev1.Service{ofEdges(proxied(balancer("a", false, "192.0.2.1"))), ofEdges(proxied(balancer("b", true, "192.0.2.2")))}, nil, "",
			"192.0.2.1 default/a [n1 n2 tainted] by edges\n192.0.2.2 default/b [n1 n2 tainted] by edges\n"},
		{"edges serve it, shared", []*corev1.Service{ofEdges(proxied(balancer("a", false, "192.0.2.1"))), ofEdges(proxied(balancer("b", true, "192.0.2.1")))}, nil, "edge=yes",
			"192.0.2.1 default/a,default/b [n1] by edges\n"},
		{"class of edges with ipMode VIP", []*corev1.Service{ofEdges(balancer("a", false, "192.0.2.1"))}, nil, "edge=yes", "192.0.2.1 default/a [n1]\n"},
		{"selected nodes", []*corev1.Service{balancer("a", false, "192.0.2.1")}, nil, "edge=yes", "192.0.2.1 default/a [n1]\n"},
		{"policy Local", []*corev1.Service{balancer("a", true, "192.0.2.1")},
			map[string][]*corev1.Endpoint{"a": {ready("n2"), unready("n1"), leaving("tainted"), ready("out")}}, "", "192.0.2.1 default/a [n2]\n"},
		{"policy Local, all terminate", []*corev1.Service{balancer("a", true, "192.0.2.1")},
			map[string][]*corev1.Endpoint{"a": {leaving("n1"), unready("n2")}}, "", "192.0.2.1 default/a [n1]\n"},
		{"policy Local without endpoints", []*corev1.Service{balancer("a", true, "192.0.2.1")}, nil, "", "192.0.2.1 default/a []\n"},
		{"shared", []*corev1.Service{balancer("b", false, "192.0.2.1"), balancer("a", false, "192.0.2.1")}, nil, "",
			"192.0.2.1 default/a,default/b [n1 n2 tainted]\n"},
		{"shared under policy Local", []*corev1.Service{balancer("a", true, "192.0.2.1"), balancer("b", true, "192.0.2.1")},
			map[string][]*corev1.Endpoint{"a": {ready("n1"), ready("n2")}, "b": {ready("n2")}}, "", "192.0.2.1 default/a,default/b [n2]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			selector, err := spec.ParseSelector(c.selector)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, w := range Build(Objects{Services: c.services, Nodes: nodes, Selector: selector, Slices: func(of object.Name) []*corev1.EndpointSlice {
				return []*corev1.EndpointSlice{{Endpoints: c.endpoints[of.Name]}}
			}}) {
				var services, eligible []string
				for _, s := range w.Services {
					services = append(services, s.String())
				}
				for _, n := range nodes {
					if name := n.GetMetadata().GetName(); w.Nodes[name] {
						eligible = append(eligible, name)
					}
				}
				by := ""
				if w.Proxied {
					by = " by edges"
				}
				fmt.Fprintf(&got, "%s %s %v%s\n", w.Address, strings.Join(services, ","), eligible, by)
			}
			if got.String() != c.want {
				t.Errorf("got\n%swant\n%s", got.String(), c.want)
			}
		})
	}
}

func nodeObject(name string, labels map[string]string, taints ...string) *corev1.Node {
	n := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name, Labels: labels}, Spec: &corev1.NodeSpec{}}
	for _, key := range taints {
		n.Spec.Taints = append(n.Spec.Taints, &corev1.Taint{Key: key})
	}
	return n
}

// balancer returns a service of type LoadBalancer with addresses.
func balancer(name string, local bool, addresses ...string) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
		Spec:     &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, ExternalTrafficPolicy: corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER},
		Status:   &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{}},
	}
	if local {
		svc.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	}
	for _, ip := range addresses {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, &corev1.LoadBalancerIngress{Ip: ip})
	}
	return svc
}

func ofEdges(svc *corev1.Service) *corev1.Service {
	svc.Spec.LoadBalancerClass = proto.String(settings.ClassEdge)
	return svc
}

func proxied(svc *corev1.Service) *corev1.Service {
	svc.Status.LoadBalancer.Ingress[0].IpMode = corev1.IPMode_IP_MODE_PROXY
	return svc
}

// TestAServiceThatPanicsKeepsItsAddresses lets one service panic. Its addresses stay wanted as they were, and those of
// the other services change.
func TestAServiceThatPanicsKeepsItsAddresses(t *testing.T) {
	w := guardtest.New(t)
	objects := Objects{Nodes: []*corev1.Node{nodeObject("n1", nil)}, Guard: w.Guard}
	build := func(services ...*corev1.Service) string {
		objects.Services = services
		objects.Before = Build(objects)
		var all []string
		for _, wanted := range objects.Before {
			all = append(all, wanted.Address.String())
		}
		return strings.Join(all, " ")
	}
	build(balancer("bad", false, "192.0.2.1"), balancer("web", false, "192.0.2.2"))
	w.BreakName("bad")
	for range 2 {
		if got := build(balancer("bad", false, "192.0.2.8"), balancer("web", false, "192.0.2.3")); got != "192.0.2.1 192.0.2.3" {
			t.Errorf("wanted %s", got)
		}
	}
	w.Want("Service default/bad")
	if got := build(balancer("web", false, "192.0.2.3")); got != "192.0.2.3" {
		t.Errorf("wanted %s after the deletion", got)
	}
	w.Want()
}

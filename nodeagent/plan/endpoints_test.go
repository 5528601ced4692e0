package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/plan"
)

// endpoint parses a short description of an endpoint, such as "10.0.0.1 ready node=a zones=x,y".
func endpoint(t *testing.T, text string) *corev1.Endpoint {
	t.Helper()
	words := strings.Fields(text)
	ep := &corev1.Endpoint{Addresses: []string{words[0]}, Conditions: &corev1.EndpointConditions{}}
	yes, no := true, false
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "ready":
			ep.Conditions.Ready = &yes
		case "unready":
			ep.Conditions.Ready = &no
		case "serving":
			ep.Conditions.Serving = &yes
		case "leaving": // terminating but still serving
			ep.Conditions.Ready, ep.Conditions.Serving, ep.Conditions.Terminating = &no, &yes, &yes
		case "dying": // terminating and no longer serving
			ep.Conditions.Ready, ep.Conditions.Serving, ep.Conditions.Terminating = &no, &no, &yes
		case "node":
			ep.NodeName = &value
		case "zones":
			ep.Hints = &corev1.EndpointHints{}
			for _, z := range strings.Split(value, ",") {
				ep.Hints.ForZones = append(ep.Hints.ForZones, &corev1.ForZone{Name: z})
			}
		case "nodes":
			ep.Hints = &corev1.EndpointHints{}
			for _, n := range strings.Split(value, ",") {
				ep.Hints.ForNodes = append(ep.Hints.ForNodes, &corev1.ForNode{Name: n})
			}
		case "weight":
			var n uint32
			if _, err := fmt.Sscan(value, &n); err != nil {
				t.Fatal(err)
			}
			ep.Weight = &n
		default:
			t.Fatalf("what is %q?", w)
		}
	}
	return ep
}

// slice returns an EndpointSlice of IPv4 endpoints with one unnamed TCP port.
func slice(t *testing.T, name string, endpoints ...string) *corev1.EndpointSlice {
	t.Helper()
	port := int32(8080)
	s := &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Namespace: "default", Name: name},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports:       []*corev1.EndpointPort{{Protocol: corev1.Protocol_PROTOCOL_TCP, Port: &port}},
	}
	for _, text := range endpoints {
		s.Endpoints = append(s.Endpoints, endpoint(t, text))
	}
	return s
}

func service(change func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, ClusterIp: "10.96.0.1", ClusterIps: []string{"10.96.0.1"},
			Ports: []*corev1.ServicePort{{Protocol: corev1.Protocol_PROTOCOL_TCP, Port: 80}},
		},
	}
	if change != nil {
		change(svc)
	}
	return svc
}

var here = plan.Facts{Node: "here", Zone: "z1"}

// backends returns the last octets of the addresses of a server's backends.
func backends(v *plan.VirtualServer) string {
	var out []string
	for _, r := range v.Reals {
		b := r.Addr.Addr().As4()
		text := fmt.Sprint(b[3])
		if r.Weight != 1 {
			text += fmt.Sprintf("*%d", r.Weight)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

const hinted = "hinted"

// TestChoice checks KEP-1669 and topology hints case by case: the endpoints that the two traffic
// policies choose.
func TestChoice(t *testing.T) {
	for _, tc := range []struct {
		name      string
		service   string
		endpoints []string
		cluster   string
		local     string
	}{
		{name: "no endpoints"},
		{name: "ready ones", endpoints: []string{"10.0.0.1 ready node=here", "10.0.0.2 ready node=there"}, cluster: "1 2", local: "1"},
		{name: "unset conditions are ready", endpoints: []string{"10.0.0.1"}, cluster: "1"},
		{name: "not ready ones are out", endpoints: []string{"10.0.0.1 unready node=here", "10.0.0.2 ready node=there"}, cluster: "2"},
		{name: "serving alone is not enough", endpoints: []string{"10.0.0.1 unready serving node=here"}},
		{name: "leaving ones only without ready ones", endpoints: []string{"10.0.0.1 ready node=here", "10.0.0.2 leaving node=here"}, cluster: "1", local: "1"},
		{name: "leaving ones as the last resort", endpoints: []string{"10.0.0.1 leaving node=here", "10.0.0.2 dying node=here", "10.0.0.3 unready node=here"}, cluster: "1", local: "1"},
		{
			name:      "the fallback is decided for each set by itself",
			endpoints: []string{"10.0.0.1 leaving node=here", "10.0.0.2 ready node=there"}, cluster: "2", local: "1",
		},
		{name: "duplicates: the ready one", endpoints: []string{"10.0.0.1 leaving node=here", "10.0.0.1 ready node=here"}, cluster: "1", local: "1"},
		{name: "weights", endpoints: []string{"10.0.0.1 ready weight=3", "10.0.0.2 ready weight=0"}, cluster: "1*3 2*0"},
		{
			name: "hints are followed", service: hinted,
			endpoints: []string{"10.0.0.1 ready zones=z1 node=here", "10.0.0.2 ready zones=z2 node=here"}, cluster: "1", local: "1 2",
		},
		{name: "hints need a service that wants them", endpoints: []string{"10.0.0.1 ready zones=z1", "10.0.0.2 ready zones=z2"}, cluster: "1 2"},
		{name: "hints on some only", service: hinted, endpoints: []string{"10.0.0.1 ready zones=z1", "10.0.0.2 ready"}, cluster: "1 2"},
		{name: "hints for other zones only", service: hinted, endpoints: []string{"10.0.0.1 ready zones=z2", "10.0.0.2 ready zones=z3"}, cluster: "1 2"},
		{
			name: "hints of what is not ready do not matter", service: hinted,
			endpoints: []string{"10.0.0.1 ready zones=z1", "10.0.0.2 unready", "10.0.0.3 ready zones=z2,z1"}, cluster: "1 3",
		},
		{name: "hints for nodes", service: hinted, endpoints: []string{"10.0.0.1 ready nodes=there", "10.0.0.2 ready nodes=here"}, cluster: "2"},
		{name: "hints and nobody ready", service: hinted, endpoints: []string{"10.0.0.1 leaving zones=z2", "10.0.0.2 leaving zones=z1"}, cluster: "1 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for policy, want := range map[corev1.TrafficPolicy]string{
				corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER: tc.cluster, corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL: tc.local,
			} {
				svc := service(func(s *corev1.Service) {
					s.Spec.InternalTrafficPolicy = policy
					if tc.service == hinted {
						s.Spec.TrafficDistribution = corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_ZONE
					}
				})
				// One slice with all endpoints must give the same plan as one slice for each
				// endpoint.
				split := make([]*corev1.EndpointSlice, len(tc.endpoints))
				for i, text := range tc.endpoints {
					split[i] = slice(t, fmt.Sprint("s", i), text)
				}
				for _, slicesOf := range [][]*corev1.EndpointSlice{{slice(t, "s", tc.endpoints...)}, split} {
					res := plan.Build(svc, slicesOf, &here)
					if len(res.Servers) != 1 || len(res.Problems) != 0 {
						t.Fatalf("%v: %d servers, problems %q", policy, len(res.Servers), res.Problems)
					}
					if got := backends(res.Servers[0]); got != want {
						t.Errorf("%v: chose %q, want %q", policy, got, want)
					}
				}
			}
		})
	}
}

func TestBadEndpointsAreReportedAndLeftOut(t *testing.T) {
	bad := slice(t, "bad", "10.0.0.1 ready", "fd00::1 ready", "::ffff:10.0.0.9 ready", "0.0.0.0 ready", "nonsense ready")
	bad.Endpoints = append(bad.Endpoints, &corev1.Endpoint{})
	zero := slice(t, "zero", "10.0.0.2 ready")
	*zero.Ports[0].Port = 0
	huge := slice(t, "huge", "10.0.0.3 ready")
	*huge.Ports[0].Port = 70000
	allPorts := slice(t, "all", "10.0.0.4 ready")
	allPorts.Ports[0].Port = nil
	otherName := slice(t, "named", "10.0.0.5 ready")
	name := "metrics"
	otherName.Ports[0].Name = &name
	fqdn := slice(t, "fqdn", "10.0.0.6 ready")
	fqdn.AddressType = corev1.AddressType_ADDRESS_TYPE_FQDN

	res := plan.Build(service(nil), []*corev1.EndpointSlice{bad, zero, huge, allPorts, otherName, fqdn}, &here)
	if got := backends(res.Servers[0]); got != "1" {
		t.Errorf("backends %q, want only 1", got)
	}
	for _, want := range []string{"fd00::1 is of another family", "::ffff:10.0.0.9 is of another family", "0.0.0.0 cannot", "\"nonsense\" is no IP", "has no address", "is 0, which", "is 70000, which"} {
		if !slices.ContainsFunc(res.Problems, func(p string) bool { return strings.Contains(p, want) }) {
			t.Errorf("no problem says %q: %q", want, res.Problems)
		}
	}
	if len(res.Problems) != 7 {
		t.Errorf("%d problems, want 7: %q", len(res.Problems), res.Problems)
	}
}

// TestEachAddressOfAnEndpointIsABackend checks that an endpoint with several addresses is as many backends, with the
// weight and the state of the endpoint, and that only the invalid addresses are left out.
func TestEachAddressOfAnEndpointIsABackend(t *testing.T) {
	s := slice(t, "s", "10.0.0.4 ready weight=3", "10.0.0.6 unready", "10.0.0.7 ready")
	s.Endpoints[0].Addresses = []string{"10.0.0.4", "10.0.0.1", "nonsense", "10.0.0.9", "10.0.0.1"}
	s.Endpoints[1].Addresses = []string{"10.0.0.6", "10.0.0.5"}
	svc := service(func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, &corev1.ServicePort{Name: "other", Port: 81})
	})
	s.Ports = append(s.Ports, &corev1.EndpointPort{Name: new("other"), Port: new(int32(8081))})
	res := plan.Build(svc, []*corev1.EndpointSlice{s}, &here)
	if len(res.Servers) != 2 || len(res.Problems) != 1 {
		t.Fatalf("%d servers, problems %q", len(res.Servers), res.Problems)
	}
	for i, port := range []uint16{8080, 8081} {
		server := res.Servers[i]
		if got := backends(server); got != "1*3 4*3 7 9*3" {
			t.Errorf("%s: backends %q", server.Key, got)
		}
		for _, r := range server.Reals {
			if r.Addr.Port() != port {
				t.Errorf("%s has the backend %s", server.Key, r.Addr)
			}
		}
	}
}

// TestAddressesWithoutPodCountForTheHealthCheck checks that each address of an endpoint that is no pod counts at the
// health-check node port, because each is a backend.
func TestAddressesWithoutPodCountForTheHealthCheck(t *testing.T) {
	svc := service(func(s *corev1.Service) {
		s.Spec.Type, s.Spec.HealthCheckNodePort = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, 32000
		s.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	})
	s := slice(t, "s", "10.1.0.1 ready node=here", "10.1.0.3 ready node=here")
	for _, ep := range s.Endpoints {
		ep.Addresses = append(ep.Addresses, "10.1.0.2")
	}
	s.Endpoints[1].Addresses = append(s.Endpoints[1].Addresses, "10.1.0.4")
	s.Endpoints[1].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "web"}
	res := plan.Build(svc, []*corev1.EndpointSlice{s}, &plan.Facts{Node: "here"})
	if res.HealthCheck == nil || res.HealthCheck.Local != 3 {
		t.Errorf("health check %+v, want 3 local endpoints", res.HealthCheck)
	}
}

// TestPortsOfASliceAreFoundByNameAndProtocol has slices with few ports and with more, which are searched in another
// way, and a name that two protocols share.
func TestPortsOfASliceAreFoundByNameAndProtocol(t *testing.T) {
	for _, ports := range []int{3, 300} {
		s := slice(t, "s", "10.0.0.1 ready")
		svc := service(func(s *corev1.Service) { s.Spec.Ports = nil })
		s.Ports = nil
		for n := range ports {
			name, protocol := fmt.Sprint("p", n/2), corev1.Protocol_PROTOCOL_TCP
			if n%2 == 1 {
				protocol = corev1.Protocol_PROTOCOL_UDP
			}
			s.Ports = append(s.Ports, &corev1.EndpointPort{Name: &name, Protocol: protocol, Port: new(int32(1000 + n))})
			svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{Name: name, Protocol: protocol, Port: int32(2000 + n)})
		}
		s.Ports = append(s.Ports, s.Ports[0].CloneVT()) // a second one of the name is not used
		*s.Ports[ports].Port = 9
		res := plan.Build(svc, []*corev1.EndpointSlice{s}, &here)
		if len(res.Servers) != ports || len(res.Problems) > 0 {
			t.Fatalf("%d servers, want %d; problems %q", len(res.Servers), ports, res.Problems)
		}
		for _, server := range res.Servers {
			if len(server.Reals) != 1 || server.Reals[0].Addr.Port() != server.Addr.Port()-1000 {
				t.Errorf("%s has the backends %v", server.Key, server.Reals)
			}
		}
	}
}

// TestADualStackPodCountsOnce checks that a pod with two addresses counts as one endpoint at the
// health-check node port, because load balancers use the number as a weight.
func TestADualStackPodCountsOnce(t *testing.T) {
	svc := service(func(s *corev1.Service) {
		s.Spec.Type, s.Spec.HealthCheckNodePort = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, 32000
		s.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	})
	v4 := slice(t, "v4", "10.1.0.1 ready node=here", "10.1.0.2 ready node=here", "10.1.0.3 ready node=here")
	v6 := slice(t, "v6", "2001:db8::1 ready node=here", "2001:db8::2 ready node=here")
	v6.AddressType = corev1.AddressType_ADDRESS_TYPE_IPV6
	for _, s := range []*corev1.EndpointSlice{v4, v6} {
		for i, ep := range s.Endpoints[:2] { // the third has no pod
			ep.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: fmt.Sprint("web-", i)}
		}
	}
	res := plan.Build(svc, []*corev1.EndpointSlice{v4, v6}, &plan.Facts{Node: "here"})
	if res.HealthCheck == nil || res.HealthCheck.Local != 3 {
		t.Errorf("health check %+v, want 3 local endpoints", res.HealthCheck)
	}
}

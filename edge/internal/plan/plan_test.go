package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/object"

	"portolan.dev/edge/internal/plan"
)

// service returns a service with the addresses 192.0.2.1 and 2001:db8::1, and the port 80.
func service(change func(*corev1.Service)) *corev1.Service {
	class := balancer.ClassEdge
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "shop", Name: "web", Uid: "1", Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, LoadBalancerClass: &class, Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		},
		Status: &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{
			{Ip: "192.0.2.1", IpMode: corev1.IPMode_IP_MODE_PROXY}, {Ip: "2001:db8::1", IpMode: corev1.IPMode_IP_MODE_PROXY},
		}}},
	}
	if change != nil {
		change(svc)
	}
	return svc
}

// slice returns a slice of a family. An endpoint is an address, a zone and perhaps a state, such as "10.0.0.1 a" or
// "10.0.0.1 a leaving".
func slice(name string, v6 bool, endpoints ...string) *corev1.EndpointSlice {
	port, family := int32(8080), corev1.AddressType_ADDRESS_TYPE_IPV4
	if v6 {
		family = corev1.AddressType_ADDRESS_TYPE_IPV6
	}
	out := &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{object.LabelServiceName: "web"}},
		AddressType: family, Ports: []*corev1.EndpointPort{{Port: &port, Protocol: corev1.Protocol_PROTOCOL_TCP}},
	}
	for _, text := range endpoints {
		words := strings.Fields(text)
		yes, no := true, false
		e := &corev1.Endpoint{Addresses: words[:1], Zone: &words[1]}
		if len(words) > 2 {
			e.Conditions = &corev1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
			if words[2] == "unready" {
				e.Conditions = &corev1.EndpointConditions{Ready: &no}
			}
		}
		out.Endpoints = append(out.Endpoints, e)
	}
	return out
}

// describe returns a port on one line.
func describe(p *plan.Port) string {
	text := p.Frontend.String() + ":"
	for _, b := range p.Server.Backends {
		text += " " + b.Addr.String()
		if b.Weight == 0 {
			text += " (none new)"
		}
	}
	return text
}

func build(svc *corev1.Service, facts plan.Facts, slicesOf ...*corev1.EndpointSlice) plan.Result {
	settings, _ := balancer.Parse(svc)
	return plan.Build(svc, slicesOf, &settings, &facts)
}

func TestBackends(t *testing.T) {
	annotated := func(value string) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Metadata.Annotations[balancer.Prefix+"cross-zone"] = value }
	}
	down := func(addr string) plan.Facts {
		return plan.Facts{Zone: "a", Usable: func(_, backend netip.AddrPort) bool { return backend.Addr().String() != addr }}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		facts  plan.Facts
		slices []*corev1.EndpointSlice
		want   []string
	}{
		"no endpoints": {want: []string{"192.0.2.1:80:", "[2001:db8::1]:80:"}},
		"each family": {
			slices: []*corev1.EndpointSlice{slice("1", false, "10.0.0.1 a"), slice("2", true, "2001:db8::9 a")},
			want:   []string{"192.0.2.1:80: 10.0.0.1:8080", "[2001:db8::1]:80: [2001:db8::9]:8080"},
		},
		"the other family": {
			slices: []*corev1.EndpointSlice{slice("1", false, "10.0.0.1 a")},
			want:   []string{"192.0.2.1:80: 10.0.0.1:8080", "[2001:db8::1]:80: 10.0.0.1:8080"},
		},
		"ready ones": {
			slices: []*corev1.EndpointSlice{slice("1", false, "10.0.0.1 a", "10.0.0.2 a unready", "10.0.0.3 a leaving")},
			want:   []string{"192.0.2.1:80: 10.0.0.1:8080", "[2001:db8::1]:80: 10.0.0.1:8080"},
		},
		"leaving ones without ready ones": {
			slices: []*corev1.EndpointSlice{slice("1", false, "10.0.0.2 a unready", "10.0.0.3 a leaving")},
			want:   []string{"192.0.2.1:80: 10.0.0.3:8080", "[2001:db8::1]:80: 10.0.0.3:8080"},
		},
		"all zones": {
			facts: plan.Facts{Zone: "a"}, slices: []*corev1.EndpointSlice{slice("1", false, "10.0.0.1 a", "10.0.0.2 b")},
			want: []string{"192.0.2.1:80: 10.0.0.1:8080 10.0.0.2:8080", "[2001:db8::1]:80: 10.0.0.1:8080 10.0.0.2:8080"},
		},
		"own zone": {
			change: annotated("false"), facts: plan.Facts{Zone: "a"}, slices: []*corev1.EndpointSlice{slice("1", false, "10.0.0.1 a", "10.0.0.2 b")},
			want: []string{"192.0.2.1:80: 10.0.0.1:8080 10.0.0.2:8080 (none new)", "[2001:db8::1]:80: 10.0.0.1:8080 10.0.0.2:8080 (none new)"},
		},
		"nothing in the own zone": {
			change: annotated("false"), facts: plan.Facts{Zone: "c"}, slices: []*corev1.EndpointSlice{slice("1", false, "10.0.0.1 a", "10.0.0.2 b")},
			want: []string{"192.0.2.1:80: 10.0.0.1:8080 10.0.0.2:8080", "[2001:db8::1]:80: 10.0.0.1:8080 10.0.0.2:8080"},
		},
		"nothing usable in the own zone": {
			change: annotated("false"), facts: down("10.0.0.1"), slices: []*corev1.EndpointSlice{slice("1", false, "10.0.0.1 a", "10.0.0.2 b")},
			want: []string{"192.0.2.1:80: 10.0.0.1:8080 10.0.0.2:8080", "[2001:db8::1]:80: 10.0.0.1:8080 10.0.0.2:8080"},
		},
		"an unknown zone": {
			change: annotated("false"), slices: []*corev1.EndpointSlice{slice("1", false, "10.0.0.1 a")},
			want: []string{"192.0.2.1:80: 10.0.0.1:8080", "[2001:db8::1]:80: 10.0.0.1:8080"},
		},
		"addresses of nodes": {
			change: func(svc *corev1.Service) {
				svc.Status.LoadBalancer.Ingress = []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1", IpMode: corev1.IPMode_IP_MODE_VIP}, {Hostname: "lb.example.com"}}
			},
		},
		"another proxy": {
			change: func(svc *corev1.Service) { svc.Metadata.Labels[object.LabelServiceProxyName] = "other" },
		},
		"other protocols": {
			change: func(svc *corev1.Service) { svc.Spec.Ports[0].Protocol = corev1.Protocol_PROTOCOL_UDP },
		},
		"itself": {
			slices: []*corev1.EndpointSlice{func() *corev1.EndpointSlice {
				s := slice("1", false, "192.0.2.1 a", "10.0.0.1 a")
				port := int32(80)
				s.Ports[0].Port = &port
				return s
			}()},
			want: []string{"192.0.2.1:80: 10.0.0.1:80", "[2001:db8::1]:80: 10.0.0.1:80 192.0.2.1:80"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			result := build(service(tc.change), tc.facts, tc.slices...)
			for i := range result.Ports {
				got = append(got, describe(&result.Ports[i]))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("planned %q, want %q", got, tc.want)
			}
		})
	}
	if got := plan.Build(nil, nil, nil, &plan.Facts{}); len(got.Ports) > 0 {
		t.Errorf("a service that does not exist has %v", got.Ports)
	}
}

// TestSources checks which clients are admitted: the ranges of the service and of its groups. A group that is not
// configured admits no client.
func TestSources(t *testing.T) {
	office := map[string][]netip.Prefix{"office": {netip.MustParsePrefix("192.0.2.0/24")}}
	for name, tc := range map[string]struct {
		ranges     []string
		groups     string
		restricted bool
		allowed    string
		problems   int
	}{
		"everybody":        {allowed: "[]"},
		"ranges":           {ranges: []string{"198.51.100.0/24"}, restricted: true, allowed: "[198.51.100.0/24]"},
		"a group":          {groups: "office", restricted: true, allowed: "[192.0.2.0/24]"},
		"both":             {ranges: []string{"198.51.100.0/24"}, groups: "office", restricted: true, allowed: "[192.0.2.0/24 198.51.100.0/24]"},
		"an unknown group": {groups: "home", restricted: true, allowed: "[]", problems: 1},
		"a range twice":    {ranges: []string{"192.0.2.0/24"}, groups: "office", restricted: true, allowed: "[192.0.2.0/24]"},
	} {
		svc := service(func(svc *corev1.Service) {
			svc.Spec.LoadBalancerSourceRanges = tc.ranges
			svc.Metadata.Annotations[balancer.Prefix+"source-groups"] = tc.groups
		})
		if tc.groups == "" {
			delete(svc.Metadata.Annotations, balancer.Prefix+"source-groups")
		}
		result := build(svc, plan.Facts{Groups: office})
		for _, p := range result.Ports {
			if p.Restricted != tc.restricted || fmt.Sprint(p.Allowed) != tc.allowed {
				t.Errorf("%s: restricted %t to %v, want %t to %s", name, p.Restricted, p.Allowed, tc.restricted, tc.allowed)
			}
		}
		if len(result.Problems) != tc.problems {
			t.Errorf("%s: problems %q", name, result.Problems)
		}
	}
}

// TestServer checks scheduler, affinity and drain time.
func TestServer(t *testing.T) {
	timeout, drain := int32(30), int32(7)
	svc := service(func(svc *corev1.Service) {
		svc.Spec.Scheduler, svc.Spec.SchedulerFlags = corev1.Scheduler_SCHEDULER_SH, []string{"sh-port"}
		svc.Spec.SessionAffinity = corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP
		svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIp: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
		svc.Spec.DrainTimeoutSeconds = &drain
	})
	s := build(svc, plan.Facts{}).Ports[0].Server
	if s.Scheduler != corev1.Scheduler_SCHEDULER_SH || !s.HashPort || s.Affinity != 30*time.Second || s.Drain != 7*time.Second || !s.FailOpen {
		t.Errorf("the server is %+v", s)
	}
	svc.Metadata.Annotations[balancer.Prefix+"drain"] = "false"
	if s := build(svc, plan.Facts{}).Ports[0].Server; s.Drain != 0 {
		t.Errorf("without draining: %s", s.Drain)
	}
}

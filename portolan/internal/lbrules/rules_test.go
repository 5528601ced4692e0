package lbrules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/object"
)

const (
	v4  = corev1.IPFamily_IP_FAMILY_IPV4
	v6  = corev1.IPFamily_IP_FAMILY_IPV6
	tcp = corev1.Protocol_PROTOCOL_TCP
	udp = corev1.Protocol_PROTOCOL_UDP
	vip = corev1.IPMode_IP_MODE_VIP
)

// service returns a service with the node port 30080 for its port 80/TCP.
func service(changes ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "shop", Uid: "01234567-89ab-cdef-0123-456789abcdef", Annotations: map[string]string{}},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, IpFamilies: []corev1.IPFamily{v4},
			Ports: []*corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: tcp}},
		},
		Status: &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{}},
	}
	for _, change := range changes {
		change(svc)
	}
	return svc
}

func port(number, node int32, protocol corev1.Protocol) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{Port: number, NodePort: node, Protocol: protocol})
	}
}

func noNodePorts(svc *corev1.Service) {
	for _, p := range svc.GetSpec().GetPorts() {
		p.NodePort = 0
	}
}

func address(ip string, mode corev1.IPMode) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, &corev1.LoadBalancerIngress{Ip: ip, IpMode: mode})
	}
}

func dual(svc *corev1.Service) { svc.Spec.IpFamilies = []corev1.IPFamily{v6, v4} }

func local(svc *corev1.Service) {
	svc.Spec.ExternalTrafficPolicy, svc.Spec.HealthCheckNodePort = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL, 31000
}

func sources(ranges ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = ranges }
}

// text returns a rule without its description.
func text(r Rule) string {
	what := fmt.Sprint(r.Ports)
	if r.ICMP != nil {
		what = fmt.Sprint(*r.ICMP)
	}
	return fmt.Sprintf("%s %s to %s %s from %s", r.Kind, r.Protocol, r.Destination, what, strings.Trim(fmt.Sprint(r.Sources), "[]"))
}

func TestOf(t *testing.T) {
	lb := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("2001:db8:1::/64")}
	for name, test := range map[string]struct {
		svc       *corev1.Service
		balancers []netip.Prefix
		want      []string
	}{
		"node ports": {service(), lb, []string{
			"health TCP to nodes [30080] from 192.0.2.0/28",
			"client TCP to nodes [30080] from 0.0.0.0/0",
			"mtu ICMP to nodes {3 4} from 0.0.0.0/0",
		}},
		"health checks come from where clients do if nothing else is known": {service(sources("10.0.0.0/8")), nil, []string{
			"health TCP to nodes [30080] from 10.0.0.0/8",
			"client TCP to nodes [30080] from 10.0.0.0/8",
			"mtu ICMP to nodes {3 4} from 10.0.0.0/8",
		}},
		"both families": {service(dual), lb, []string{
			"health TCP to nodes [30080] from 192.0.2.0/28",
			"health TCP to nodes [30080] from 2001:db8:1::/64",
			"client TCP to nodes [30080] from 0.0.0.0/0",
			"client TCP to nodes [30080] from ::/0",
			"mtu ICMP to nodes {3 4} from 0.0.0.0/0",
			"mtu ICMPv6 to nodes {2 0} from ::/0",
		}},
		"ranges of one family admit nobody of the other": {service(dual, sources("2001:db8::/32", "2001:db8:5::/48")), lb, []string{
			"health TCP to nodes [30080] from 192.0.2.0/28",
			"health TCP to nodes [30080] from 2001:db8:1::/64",
			"client TCP to nodes [30080] from 2001:db8::/32",
			"mtu ICMPv6 to nodes {2 0} from 2001:db8::/32",
		}},
		"ranges of the annotation": {service(func(svc *corev1.Service) {
			svc.Metadata.Annotations[object.AnnotationSourceRanges] = "143.231.0.0/16 , 10.1.0.0/16"
		}), lb, []string{
			"health TCP to nodes [30080] from 192.0.2.0/28",
			"client TCP to nodes [30080] from 10.1.0.0/16 143.231.0.0/16",
			"mtu ICMP to nodes {3 4} from 10.1.0.0/16 143.231.0.0/16",
		}},
		"malformed ranges admit nobody": {service(sources("everybody")), lb, []string{
			"health TCP to nodes [30080] from 192.0.2.0/28",
		}},
		"policy Local": {service(local, port(443, 30443, tcp)), lb, []string{
			"health TCP to nodes [31000] from 192.0.2.0/28",
			"client TCP to nodes [30080 30443] from 0.0.0.0/0",
			"mtu ICMP to nodes {3 4} from 0.0.0.0/0",
		}},
		"several protocols, and a node port of two": {service(port(53, 30053, udp), port(53, 30053, tcp), port(5000, 30001, corev1.Protocol_PROTOCOL_SCTP)), lb, []string{
			"health TCP to nodes [30053 30080] from 192.0.2.0/28",
			"client TCP to nodes [30053 30080] from 0.0.0.0/0",
			"client UDP to nodes [30053] from 0.0.0.0/0",
			"client SCTP to nodes [30001] from 0.0.0.0/0",
			"mtu ICMP to nodes {3 4} from 0.0.0.0/0",
		}},
		"an address that nodes serve": {service(address("203.0.113.7", vip)), lb, []string{
			"health TCP to nodes [30080] from 192.0.2.0/28",
			"client TCP to nodes [30080] from 0.0.0.0/0",
			"client TCP to 203.0.113.7 [80] from 0.0.0.0/0",
			"mtu ICMP to nodes {3 4} from 0.0.0.0/0",
			"mtu ICMP to 203.0.113.7 {3 4} from 0.0.0.0/0",
		}},
		"such addresses without node ports": {service(noNodePorts, dual, address("203.0.113.7", vip), address("2001:db8::7", vip)), lb, []string{
			"client TCP to 203.0.113.7 [80] from 0.0.0.0/0",
			"client TCP to 2001:db8::7 [80] from ::/0",
			"mtu ICMP to 203.0.113.7 {3 4} from 0.0.0.0/0",
			"mtu ICMPv6 to 2001:db8::7 {2 0} from ::/0",
		}},
		"an address and a name that the provider serves": {service(address("203.0.113.7", corev1.IPMode_IP_MODE_PROXY), func(svc *corev1.Service) {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, &corev1.LoadBalancerIngress{Hostname: "lb.example.com"})
		}), lb, []string{
			"health TCP to nodes [30080] from 192.0.2.0/28",
			"client TCP to nodes [30080] from 0.0.0.0/0",
			"mtu ICMP to nodes {3 4} from 0.0.0.0/0",
		}},
		"an address that edges serve": {service(noNodePorts, address("203.0.113.7", corev1.IPMode_IP_MODE_PROXY), func(svc *corev1.Service) {
			svc.Spec.LoadBalancerClass = proto.String(balancer.ClassEdge)
		}), lb, []string{
			"client TCP to 203.0.113.7 [80] from 0.0.0.0/0",
			"mtu ICMP to 203.0.113.7 {3 4} from 0.0.0.0/0",
		}},
		"load balancers of the other family check nothing": {service(), lb[1:], []string{
			"client TCP to nodes [30080] from 0.0.0.0/0",
			"mtu ICMP to nodes {3 4} from 0.0.0.0/0",
		}},
		"UDP cannot be checked by TCP": {service(func(svc *corev1.Service) { svc.Spec.Ports[0].Protocol = udp }), lb, []string{
			"client UDP to nodes [30080] from 0.0.0.0/0",
			"mtu ICMP to nodes {3 4} from 0.0.0.0/0",
		}},
		"no rule while there is nothing to reach": {service(noNodePorts), lb, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range Of(test.svc, test.balancers) {
				got = append(got, text(r))
				if want := fmt.Sprintf("kubernetes.io/rule/nlb/%s=a0123456789abcdef0123456789abcde", r.Kind); r.Description != want || r.Namespace != "shop" || r.Service != "web" {
					t.Errorf("the rule is of %s/%s and described by %q, want %q", r.Namespace, r.Service, r.Description, want)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestNodeNetworks(t *testing.T) {
	node := func(labels map[string]string, addresses ...string) *corev1.Node {
		n := &corev1.Node{Metadata: &corev1.ObjectMeta{Labels: labels}, Status: &corev1.NodeStatus{}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, &corev1.NodeAddress{Address: a})
		}
		return n
	}
	got := fmt.Sprint(NodeNetworks([]*corev1.Node{
		node(nil, "10.0.0.2", "n1.example.com", "2001:db8::1"), node(nil, "10.0.0.3"), node(nil, "10.0.0.5"),
		node(map[string]string{"node.kubernetes.io/exclude-from-external-load-balancers": ""}, "10.0.0.4"),
	}))
	if want := "[10.0.0.2/31 10.0.0.5/32 2001:db8::1/128]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestJoin checks that joined ranges have the same addresses as the given ones, and that no two of
// them could be one.
func TestJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranges := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix {
			ip := netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "address")})
			return netip.PrefixFrom(ip, rapid.IntRange(24, 32).Draw(t, "bits")).Masked()
		}), 0, 20).Draw(t, "ranges")
		joined := Join(ranges)
		for last := range 256 {
			ip := netip.AddrFrom4([4]byte{10, 0, 0, byte(last)})
			has := func(p netip.Prefix) bool { return p.Contains(ip) }
			if slices.ContainsFunc(ranges, has) != slices.ContainsFunc(joined, has) {
				t.Fatalf("%v became %v, which differs in %v", ranges, joined, ip)
			}
		}
		for i := 1; i < len(joined); i++ {
			if _, ok := union(joined[i-1], joined[i]); ok || joined[i-1].Overlaps(joined[i]) {
				t.Fatalf("%v and %v could be one", joined[i-1], joined[i])
			}
		}
	})
}

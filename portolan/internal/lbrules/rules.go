package lbrules

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/spec"
)

// Kind is the kind of a rule.
type Kind string

// Kinds, in the order of a service's rules.
const (
	// Health lets load balancers check the nodes.
	Health Kind = "health"
	// Client lets clients reach the service.
	Client Kind = "client"
	// MTU lets in the messages that a packet is too big.
	MTU Kind = "mtu"
)

// Nodes is the destination of rules for all addresses of nodes.
const Nodes = "nodes"

// Rule allows traffic from any of its sources to its destination.
type Rule struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	Kind      Kind   `json:"rule"`
	Family    string `json:"family"`
	// Protocol is TCP, UDP, SCTP, ICMP or ICMPv6.
	Protocol string `json:"protocol"`
	// Destination is an address of the load balancer, or Nodes.
	Destination string `json:"destination"`
	// Ports are the ports of the destination, in order. ICMP has none.
	Ports []int32 `json:"ports,omitempty"`
	// ICMP is the message of rules for ICMP and ICMPv6.
	ICMP *Message `json:"icmp,omitempty"`
	// Sources are the ranges of the senders, in order.
	Sources     []netip.Prefix `json:"sources"`
	Description string         `json:"description"`
}

// Message is a type of ICMP messages.
type Message struct {
	Type uint8 `json:"type"`
	Code uint8 `json:"code"`
}

// family has the properties in which IPv4 and IPv6 differ.
type family struct {
	of     corev1.IPFamily
	all    netip.Prefix // all addresses
	icmp   string
	tooBig Message // a router's answer to a packet that is too big for the next link
}

var families = []family{
	{corev1.IPFamily_IP_FAMILY_IPV4, netip.MustParsePrefix("0.0.0.0/0"), "ICMP", Message{Type: 3, Code: 4}},
	{corev1.IPFamily_IP_FAMILY_IPV6, netip.MustParsePrefix("::/0"), "ICMPv6", Message{Type: 2, Code: 0}},
}

// Of returns the rules that a service of type LoadBalancer needs. balancers are the networks from
// which load balancers check the nodes; nil: any address from which clients may come. The result is
// empty while the service has neither node ports nor an address that nodes or edges serve.
func Of(svc *corev1.Service, balancers []netip.Prefix) []Rule {
	var rules []Rule
	for _, f := range families {
		if slices.Contains(svc.GetSpec().GetIpFamilies(), f.of) {
			rules = append(rules, ofFamily(svc, f, balancers)...)
		}
	}
	slices.SortStableFunc(rules, func(a, b Rule) int { return cmp.Compare(order[a.Kind], order[b.Kind]) })
	return rules
}

var order = map[Kind]int{Health: 0, Client: 1, MTU: 2}

// ofFamily returns the rules of one family.
func ofFamily(svc *corev1.Service, f family, balancers []netip.Prefix) []Rule {
	clients := clientsOf(svc, f)
	if balancers == nil {
		balancers = clients
	}
	var rules []Rule
	add := func(kind Kind, r Rule) {
		meta := svc.GetMetadata()
		r.Namespace, r.Service, r.Kind, r.Family = meta.GetNamespace(), meta.GetName(), kind, spec.EnumName(f.of)
		r.Description = "kubernetes.io/rule/nlb/" + string(kind) + "=" + Name(svc)
		if len(r.Sources) > 0 {
			rules = append(rules, r)
		}
	}
	if ports := healthPorts(svc); len(ports) > 0 {
		add(Health, Rule{Protocol: "TCP", Destination: Nodes, Ports: ports, Sources: inFamily(balancers, f)})
	}
	for _, to := range destinations(svc, f) {
		for _, protocol := range protocols {
			if ports := portsOf(svc, protocol, to.port); len(ports) > 0 {
				add(Client, Rule{Protocol: spec.EnumName(protocol), Destination: to.name, Ports: ports, Sources: clients})
			}
		}
		add(MTU, Rule{Protocol: f.icmp, Destination: to.name, ICMP: &f.tooBig, Sources: clients})
	}
	return rules
}

var protocols = []corev1.Protocol{corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP, corev1.Protocol_PROTOCOL_SCTP}

// destination is an address, or the word for the addresses of all nodes. port returns the port at the
// destination for a port of the service.
type destination struct {
	name string
	port func(*corev1.ServicePort) int32
}

// destinations returns the destinations at which traffic of clients arrives: the nodes if the service
// has node ports, and the addresses that nodes or edges serve. A load balancer of which the nodes see
// only their own addresses is no destination, because its provider guards it.
func destinations(svc *corev1.Service, f family) []destination {
	var all []destination
	if slices.ContainsFunc(svc.GetSpec().GetPorts(), func(p *corev1.ServicePort) bool { return p.GetNodePort() != 0 }) {
		all = append(all, destination{Nodes, (*corev1.ServicePort).GetNodePort})
	}
	for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		elsewhere := ingress.GetIpMode() == corev1.IPMode_IP_MODE_PROXY && balancer.ClassOf(svc) != balancer.ClassEdge
		if ip := ingress.GetIp(); ip != "" && !elsewhere && spec.FamilyOf(ip) == f.of {
			all = append(all, destination{ip, (*corev1.ServicePort).GetPort})
		}
	}
	return all
}

// clientsOf returns the ranges of one family from which clients may come.
func clientsOf(svc *corev1.Service, f family) []netip.Prefix {
	ranges, malformed := spec.LoadBalancerSourceRanges(svc)
	if len(ranges)+len(malformed) == 0 {
		return []netip.Prefix{f.all}
	}
	return Join(inFamily(ranges, f))
}

func inFamily(ranges []netip.Prefix, f family) []netip.Prefix {
	var of []netip.Prefix
	for _, r := range ranges {
		if r.Addr().Is4() == f.all.Addr().Is4() {
			of = append(of, r)
		}
	}
	return of
}

// healthPorts returns the ports that load balancers check by TCP: the health-check node port, on which
// nodes tell whether they have endpoints, or else the node ports of TCP. A node port of another protocol
// answers no check.
func healthPorts(svc *corev1.Service) []int32 {
	if port := svc.GetSpec().GetHealthCheckNodePort(); port != 0 && spec.NeedsHealthCheckNodePort(svc) {
		return []int32{port}
	}
	return portsOf(svc, corev1.Protocol_PROTOCOL_TCP, (*corev1.ServicePort).GetNodePort)
}

// portsOf returns the ports of one protocol, in order, without 0.
func portsOf(svc *corev1.Service, protocol corev1.Protocol, port func(*corev1.ServicePort) int32) []int32 {
	var ports []int32
	for _, p := range svc.GetSpec().GetPorts() {
		if n := port(p); n != 0 && p.GetProtocol() == protocol {
			ports = append(ports, n)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// maxName is the longest name of a load balancer in bytes, a limit of cloud providers.
const maxName = 32

// Name returns the name of a service's load balancer, as cloud providers name it: by the service's
// uid, because names of services are used again.
func Name(svc *corev1.Service) string {
	name := "a" + strings.ReplaceAll(svc.GetMetadata().GetUid(), "-", "")
	return name[:min(len(name), maxName)]
}

// NodeNetworks returns the addresses of the nodes that take traffic from load balancers, joined to the
// fewest ranges that have no other address.
func NodeNetworks(nodes []*corev1.Node) []netip.Prefix {
	var all []netip.Prefix
	for _, node := range nodes {
		if !spec.TakesBalancerTraffic(node) {
			continue
		}
		for _, address := range node.GetStatus().GetAddresses() {
			if ip, err := netip.ParseAddr(address.GetAddress()); err == nil {
				ip = ip.Unmap().WithZone("")
				all = append(all, netip.PrefixFrom(ip, ip.BitLen()))
			}
		}
	}
	return Join(all)
}

// Join returns the fewest ranges with the same addresses, in order.
func Join(ranges []netip.Prefix) []netip.Prefix {
	var joined []netip.Prefix
	for _, next := range slices.SortedFunc(slices.Values(ranges), netip.Prefix.Compare) {
		if len(joined) > 0 && joined[len(joined)-1].Overlaps(next) {
			continue // the earlier one has it, because shorter ranges are earlier
		}
		joined = append(joined, next)
		for len(joined) > 1 {
			whole, ok := union(joined[len(joined)-2], joined[len(joined)-1])
			if !ok {
				break
			}
			joined = append(joined[:len(joined)-2], whole)
		}
	}
	return joined
}

// union returns the range with exactly the addresses of two ranges without a common one.
func union(a, b netip.Prefix) (netip.Prefix, bool) {
	if a.Bits() != b.Bits() || a.Bits() == 0 {
		return netip.Prefix{}, false
	}
	whole := netip.PrefixFrom(a.Addr(), a.Bits()-1).Masked()
	return whole, whole.Overlaps(b)
}

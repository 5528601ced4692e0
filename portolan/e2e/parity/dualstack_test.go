package parity

import (
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
)

const (
	v4 = corev1.IPFamily_IP_FAMILY_IPV4
	v6 = corev1.IPFamily_IP_FAMILY_IPV6
)

// dualStack has the descriptions of dual_stack.go: a service of either family, or of both in either
// order. The last description is not in Kubernetes' list.
var dualStack = slices.Concat(granular("Granular Checks: Services Secondary IP Family ", secondary), []description{
	{"should create a single stack service with cluster ip from primary service range", func(s *scene) { s.families(nil, v4) }},
	{"should create service with ipv4 cluster ip", func(s *scene) { s.families([]corev1.IPFamily{v4}, v4) }},
	{"should create service with ipv6 cluster ip", func(s *scene) { s.families([]corev1.IPFamily{v6}, v6) }},
	{"should create service with ipv4,v6 cluster ip", func(s *scene) { s.families([]corev1.IPFamily{v4, v6}, v4, v6) }},
	{"should create service with ipv6,v4 cluster ip", func(s *scene) { s.families([]corev1.IPFamily{v6, v4}, v6, v4) }},
	{"should be able to reach pod on ipv4 and ipv6 ip", func(s *scene) {
		p := s.pod("web", 1)
		for _, addr := range p.addrs {
			s.reaches(s.client(0).namespace, netip.AddrPortFrom(addr, 8080), p)
			s.reaches(s.client(1).namespace, netip.AddrPortFrom(addr, 8080), p)
		}
	}},
	{"should have at least one dual-stack node", func(s *scene) {
		for _, node := range s.lab.Nodes {
			request := &registryv1.GetNodeRequest{Name: node.Name}
			got, err := registryv1.NewNodeServiceClient(s.lab.Conn).GetNode(s.Context(), request)
			if err != nil {
				s.Fatal(err)
			}
			var internal []string
			for _, a := range got.GetNode().GetStatus().GetAddresses() {
				if a.GetType() == "InternalIP" {
					internal = append(internal, a.GetAddress())
				}
			}
			if want := []string{node.Addresses[0].String(), node.Addresses[1].String()}; !slices.Equal(internal, want) {
				s.Errorf("%s has internal addresses %q, want %q", node.Name, internal, want)
			}
		}
	}},
	{"should add and remove the second family of a service", func(s *scene) {
		svc, p := s.service("web", nil), s.pod("web", 1)
		from := s.client(0).namespace
		s.reaches(from, clusterIP(svc, 80), p)
		svc = s.update("web", func(svc *corev1.Service) { dual(svc.GetSpec()) })
		for _, ip := range svc.GetSpec().GetClusterIps() {
			s.reaches(from, at(ip, 80), p)
		}
		second := svc.GetSpec().GetClusterIps()[1]
		s.update("web", func(svc *corev1.Service) {
			svc.Spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_SINGLE_STACK
			svc.Spec.ClusterIps, svc.Spec.IpFamilies = svc.GetSpec().GetClusterIps()[:1], svc.GetSpec().GetIpFamilies()[:1]
		})
		s.refused(from, at(second, 80))
		s.reaches(from, clusterIP(svc, 80), p)
	}},
})

func dual(spec *corev1.ServiceSpec) {
	spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK
}

// families makes a service of some families and checks that it has an address and an endpoint of
// each family in want.
func (s *scene) families(ask []corev1.IPFamily, want ...corev1.IPFamily) {
	s.Helper()
	svc := s.service("web", func(spec *corev1.ServiceSpec) {
		spec.IpFamilies = ask
		if len(ask) > 1 {
			dual(spec)
		}
	})
	p := s.pod("web", 1)
	if got := svc.GetSpec().GetClusterIps(); len(got) != len(want) {
		s.Fatalf("cluster IPs %v, want %d", got, len(want))
	}
	var endpoints []string
	for i, family := range want {
		ip := netip.MustParseAddr(svc.GetSpec().GetClusterIps()[i])
		if ip.Is4() != (family == v4) {
			s.Errorf("cluster IP %d is %s", i, ip)
		}
		endpoint := p.addrs[0]
		if family == v6 {
			endpoint = p.addrs[1]
		}
		endpoints = append(endpoints, endpoint.String()+" http:8080")
		s.reaches(s.client(0).namespace, netip.AddrPortFrom(ip, 80), p)
	}
	s.endpoints("web", endpoints...)
}

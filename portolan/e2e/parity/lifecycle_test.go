package parity

import (
	"fmt"
	"net/netip"
)

// lifecycle has the descriptions of pod_lifecycle.go and no_snat.go: pods that take over, and pods
// that reach each other without services.
var lifecycle = []description{
	{"should be able to have zero downtime on a Blue Green deployment using Services and Readiness Gates", func(s *scene) {
		svc, from := s.service("web", nil), s.client(0).namespace
		blue, green := s.pod("web", 1, gated), s.pod("web", 2, gated)
		s.refused(from, clusterIP(svc, 80))
		blue.open(true)
		s.reaches(from, clusterIP(svc, 80), blue)
		defer s.unbroken(from, clusterIP(svc, 80))()
		green.open(true)
		s.reaches(from, clusterIP(svc, 80), blue, green)
		blue.open(false)
		s.reaches(from, clusterIP(svc, 80), green)
	}},
	{"Should be able to send traffic between Pods without SNAT", func(s *scene) {
		s.service("web", nodePort)
		pods := s.three()
		for _, client := range pods {
			for _, server := range pods {
				for family := range client.addrs {
					s.eventually(client.name+" reaches "+server.name, func() error { return client.seenBy(server, family) })
				}
			}
		}
	}},
}

// seenBy connects to another pod and checks that it sees this pod's address.
func (p *pod) seenBy(server *pod, family int) error {
	a, err := get(p.namespace, netip.AddrPortFrom(server.addrs[family], 8080))
	if err == nil && (a.pod != server.name || a.client.Addr() != p.addrs[family]) {
		err = fmt.Errorf("%s answers and sees %s of %s", a.pod, a.client.Addr(), p.addrs[family])
	}
	return err
}

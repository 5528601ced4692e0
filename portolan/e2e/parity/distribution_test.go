package parity

import corev1 "portolan.dev/api/core/v1"

// distribution has the descriptions of traffic_distribution.go and topology_hints.go. Nodes 0 and 1
// are in zone a, node 2 is in zone b.
var distribution = []description{
	{"should route traffic to an endpoint in the same zone when using PreferClose", func(s *scene) {
		s.zones(corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_CLOSE)
	}},
	{"should route traffic correctly between pods on multiple nodes when using PreferClose", func(s *scene) {
		s.nodesOfZones(s.service("web", distribute(corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_CLOSE)))
	}},
	{"should route traffic to an endpoint in the same zone when using PreferSameZone", func(s *scene) {
		s.zones(corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_ZONE)
	}},
	{"should route traffic correctly between pods on multiple nodes when using PreferSameZone", func(s *scene) {
		s.nodesOfZones(s.service("web", distribute(corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_ZONE)))
	}},
	{"should route traffic to an endpoint on the same node or fall back to same zone when using PreferSameNode", func(s *scene) {
		svc := s.service("web", distribute(corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_NODE))
		a, b := s.pod("web", 0), s.pod("web", 2)
		s.reaches(s.client(0).namespace, clusterIP(svc, 80), a)
		s.reaches(s.client(1).namespace, clusterIP(svc, 80), a)
		s.reaches(s.client(2).namespace, clusterIP(svc, 80), b)
	}},
	{"should route traffic to an endpoint on the same node when using PreferSameNode and fall back when the endpoint becomes unavailable", func(s *scene) {
		svc := s.service("web", distribute(corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_NODE))
		a, b := s.pod("web", 0), s.pod("web", 2)
		from := s.client(0).namespace
		s.reaches(from, clusterIP(svc, 80), a)
		a.delete()
		s.reaches(from, clusterIP(svc, 80), b)
		s.reaches(from, clusterIP(svc, 80), s.pod("web", 0))
	}},
	{"should distribute endpoints evenly", func(s *scene) {
		s.service("web", nil)
		s.nodesOfZones(s.update("web", func(svc *corev1.Service) {
			svc.Metadata.Annotations = map[string]string{"service.kubernetes.io/topology-mode": "Auto"}
		}))
		for _, slice := range s.slices("web") {
			for _, ep := range slice.GetEndpoints() {
				if hints := ep.GetHints().GetForZones(); len(hints) != 1 || hints[0].GetName() != ep.GetZone() {
					s.Errorf("an endpoint of zone %q has hints %v", ep.GetZone(), hints)
				}
			}
		}
	}},
}

func distribute(how corev1.TrafficDistribution) func(*corev1.ServiceSpec) {
	return func(spec *corev1.ServiceSpec) { spec.TrafficDistribution = how }
}

// zones checks that clients reach pods of their own zone, and pods of other zones if theirs has
// none.
func (s *scene) zones(how corev1.TrafficDistribution) {
	s.Helper()
	svc := s.service("web", distribute(how))
	a, b := s.pod("web", 0), s.pod("web", 2)
	for node, want := range []*pod{a, a, b} {
		s.reaches(s.client(node).namespace, clusterIP(svc, 80), want)
	}
	b.delete()
	s.reaches(s.client(2).namespace, clusterIP(svc, 80), a)
}

// nodesOfZones checks that a client reaches the pods of all nodes of its zone, and the pods of the
// other zone if its own has none.
func (s *scene) nodesOfZones(svc *corev1.Service) {
	s.Helper()
	a, b, c := s.pod("web", 0), s.pod("web", 1), s.pod("web", 2)
	for node, want := range [][]*pod{{a, b}, {a, b}, {c}} {
		s.reaches(s.client(node).namespace, clusterIP(svc, 80), want...)
	}
	c.delete()
	s.reaches(s.client(2).namespace, clusterIP(svc, 80), a, b)
}

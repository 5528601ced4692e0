package parity

import (
	"net/netip"
	"strings"

	corev1 "portolan.dev/api/core/v1"
)

// serviceTypes has the descriptions of service types and node ports, of service.go and
// localhost_nodeports.go.
var serviceTypes = []description{
	{"should be able to create a functioning NodePort service", func(s *scene) {
		svc, a, b := s.service("web", nodePort), s.pod("web", 0), s.pod("web", 1)
		for _, from := range append(s.everywhere(), s.lab.Outside) {
			for node := range s.lab.Nodes {
				s.reaches(from, s.nodeAt(node, svc), a, b)
			}
		}
	}},
	{"should proxy localhost NodePort traffic to backends across nodes", func(s *scene) {
		svc, a, b := s.service("web", both(nodePort, dual)), s.pod("web", 0), s.pod("web", 1)
		for _, to := range loopback(svc) {
			s.reaches(s.lab.Nodes[0].Namespace, to, a, b)
		}
	}},
	{"should be able to update service type to NodePort listening on same port number but different protocols", func(s *scene) {
		s.service("web", nil, tcp("tcp-port", 80, 8080), udp("udp-port", 80, 8080))
		p := s.pod("web", 1)
		svc := s.update("web", func(svc *corev1.Service) {
			svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
			svc.Spec.Ports[0].NodePort, svc.Spec.Ports[1].NodePort = 30001, 30001
		})
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
		s.reachesBy(getUDP, s.lab.Outside, s.nodeAt(0, svc), p)
	}},
	{"should be able to change the type from ExternalName to ClusterIP", func(s *scene) {
		s.service("web", external)
		p := s.pod("web", 1)
		svc := s.update("web", func(svc *corev1.Service) { svc.Spec = s.virtual(corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP) })
		s.reaches(s.client(0).namespace, clusterIP(svc, 80), p)
	}},
	{"should be able to change the type from ExternalName to NodePort", func(s *scene) {
		s.service("web", external)
		p := s.pod("web", 1)
		svc := s.update("web", func(svc *corev1.Service) { svc.Spec = s.virtual(corev1.ServiceType_SERVICE_TYPE_NODE_PORT) })
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
	}},
	{"should be able to change the type from ClusterIP to ExternalName", func(s *scene) {
		svc, from, p := s.service("web", nil), s.client(0).namespace, s.pod("web", 1)
		s.reaches(from, clusterIP(svc, 80), p)
		s.update("web", func(svc *corev1.Service) { external(svc.GetSpec()) })
		s.refused(from, clusterIP(svc, 80))
		s.answers(s.name("web"), "CNAME", "CNAME www.example.com.")
	}},
	{"should be able to change the type from NodePort to ExternalName", func(s *scene) {
		svc, p := s.service("web", nodePort), s.pod("web", 1)
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
		s.update("web", func(svc *corev1.Service) { external(svc.GetSpec()) })
		s.refused(s.lab.Outside, s.nodeAt(0, svc))
		s.answers(s.name("web"), "CNAME", "CNAME www.example.com.")
	}},
	{"should prevent NodePort collisions", func(s *scene) {
		port := s.service("one", nodePort).GetSpec().GetPorts()[0].GetNodePort()
		take := func(spec *corev1.ServiceSpec) { spec.Ports[0].NodePort = port }
		if _, err := s.tryService("two", both(nodePort, take)); err == nil || !strings.Contains(err.Error(), "provided port is already allocated") {
			s.Errorf("a second service with node port %d: %v", port, err)
		}
		s.deleteService("one")
		s.service("two", both(nodePort, take))
	}},
	{"should check NodePort out-of-range", func(s *scene) {
		away := func(spec *corev1.ServiceSpec) { spec.Ports[0].NodePort = 29999 }
		const want = "The range of valid ports is 30000-32767"
		if _, err := s.tryService("web", both(nodePort, away)); err == nil || !strings.Contains(err.Error(), want) {
			s.Errorf("node port 29999: %v", err)
		}
		s.service("web", nodePort)
		if _, err := s.tryUpdate("web", func(svc *corev1.Service) { away(svc.GetSpec()) }); err == nil || !strings.Contains(err.Error(), want) {
			s.Errorf("node port 29999 by an update: %v", err)
		}
	}},
	{"should release NodePorts on delete", func(s *scene) {
		svc, p := s.service("web", nodePort), s.pod("web", 1)
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
		s.deleteService("web")
		s.refused(s.lab.Outside, s.nodeAt(0, svc))
		again := s.service("web", both(nodePort, func(spec *corev1.ServiceSpec) {
			spec.Ports[0].NodePort = svc.GetSpec().GetPorts()[0].GetNodePort()
		}))
		s.reaches(s.lab.Outside, s.nodeAt(0, again), p)
	}},
}

// loopback returns the node ports of a service on the loopback addresses of its families.
func loopback(svc *corev1.Service) (all []netip.AddrPort) {
	addrs := map[corev1.IPFamily]string{v4: "127.0.0.1", v6: "::1"}
	for _, family := range svc.GetSpec().GetIpFamilies() {
		all = append(all, at(addrs[family], svc.GetSpec().GetPorts()[0].GetNodePort()))
	}
	return all
}

func external(spec *corev1.ServiceSpec) {
	spec.Type, spec.ExternalName = corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME, "www.example.com"
	spec.ClusterIp, spec.ClusterIps, spec.Selector, spec.Ports = "", nil, nil, nil
}

// virtual returns the spec of a service of a type that selects the pods of web.
func (s *scene) virtual(t corev1.ServiceType) *corev1.ServiceSpec {
	return &corev1.ServiceSpec{
		Type: t, Selector: map[string]string{"app": "web"}, Ports: []*corev1.ServicePort{httpPort.CloneVT()},
	}
}

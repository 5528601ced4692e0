package parity

import (
	"fmt"
	"io"
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
)

// Families, as the index of addresses of each family.
const (
	primary   = 0
	secondary = 1
)

// networking has the descriptions of networking.go. Its http checks are connections by TCP here.
var networking = slices.Concat(granular("", primary), []description{
	{"should function for multiple endpoint-Services with same selector", func(s *scene) {
		one, pods := s.service("web", nodePort), s.three()
		two := s.service("two", both(nodePort, func(spec *corev1.ServiceSpec) { spec.Selector["app"] = "web" }))
		from := pods[0].namespace
		for _, svc := range []*corev1.Service{one, two} {
			s.reaches(from, clusterIP(svc, 80), pods...)
			s.reaches(from, s.nodeAt(0, svc), pods...)
		}
		s.deleteService("web")
		s.refused(from, clusterIP(one, 80))
		s.reaches(from, clusterIP(two, 80), pods...)
		s.reaches(from, s.nodeAt(0, two), pods...)
	}},
	{"should update nodePort: http", func(s *scene) { s.losesNodePort(get, tcp("tcp", 80, 8080)) }},
	{"should update nodePort: udp", func(s *scene) { s.losesNodePort(getUDP, udp("udp", 80, 8080)) }},
	{"should support basic nodePort: udp functionality", func(s *scene) {
		svc, p := s.service("web", nodePort, udp("udp", 80, 8080)), s.pod("web", 1)
		for node := range s.lab.Nodes {
			s.reachesBy(getUDP, s.lab.Outside, s.nodeAt(node, svc), p)
		}
	}},
})

// granular returns the descriptions that networking.go has for the first family, and dual_stack.go
// for the second one with a prefix.
func granular(prefix string, family int) []description {
	var all []description
	byTCP, byUDP := reached{family, get, tcp("tcp", 80, 8080)}, reached{family, getUDP, udp("udp", 80, 8080)}
	for _, r := range []reached{byTCP, byUDP} {
		protocol := "http"
		if r.port.GetName() == "udp" {
			protocol = "udp"
		}
		add := func(what string, test func(*scene, reached)) {
			all = append(all, description{prefix + what + ": " + protocol, func(s *scene) { test(s, r) }})
		}
		add("should function for pod-Service", func(s *scene, r reached) {
			s.everyPlace(r, s.client(0).namespace)
		})
		add("should function for node-Service", func(s *scene, r reached) {
			s.everyPlace(r, s.lab.Nodes[0].Namespace)
		})
		add("should function for endpoint-Service", (*scene).fromEndpoint)
		add("should update endpoints", (*scene).updates)
		add("should function for client IP based session affinity", func(s *scene, r reached) {
			svc, from := s.service("web", both(r.access, sticky), r.port), s.client(0).namespace
			s.three()
			s.sticks(r.ask, from, r.cluster(svc))
		})
	}
	return append(all,
		description{prefix + "should be able to handle large requests: http", func(s *scene) {
			svc, from, p := s.service("web", byTCP.access, byTCP.port), s.client(0).namespace, s.pod("web", 1)
			s.reaches(from, byTCP.cluster(svc), p)
			conn, _, err := connect(from, byTCP.cluster(svc))
			if err != nil {
				s.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			go func() { _, _ = conn.Write(make([]byte, long)) }()
			if n, err := io.ReadFull(conn, make([]byte, long)); err != nil {
				s.Errorf("%d of %d bytes came back: %v", n, long, err)
			}
		}},
		description{prefix + "should be able to handle large requests: udp", func(s *scene) {
			svc, from, p := s.service("web", byUDP.access, byUDP.port), s.client(0).namespace, s.pod("web", 1)
			s.reachesBy(getUDP, from, byUDP.cluster(svc), p)
			const size = 10000 // several fragments
			if a, err := send(s.flow(from, byUDP.cluster(svc)), size, answerTime); err != nil || a.size != size {
				s.Errorf("%d of %d bytes arrived: %v", a.size, size, err)
			}
		}},
		description{prefix + "should function for service endpoints using hostNetwork", func(s *scene) {
			port := uint16(10280 + 10*family) // not used by other descriptions
			s.hostEndpoints("tcp", reached{family, get, tcp("tcp", 80, int32(port))}, port)
			s.hostEndpoints("udp", reached{family, getUDP, udp("udp", 80, int32(port+1))}, port+1)
		}},
	)
}

// reached is a way to reach a service.
type reached struct {
	family int
	ask    asker
	port   *corev1.ServicePort
}

// access gives a service node ports. It also gives it the second family if that is the family of r.
func (r reached) access(spec *corev1.ServiceSpec) {
	nodePort(spec)
	if r.family == secondary {
		dual(spec)
	}
}

// cluster returns the cluster IP of a service.
func (r reached) cluster(svc *corev1.Service) netip.AddrPort {
	return at(svc.GetSpec().GetClusterIps()[r.family], 80)
}

// node returns the node port of a service on a node.
func (r reached) node(s *scene, node int, svc *corev1.Service) netip.AddrPort {
	return netip.AddrPortFrom(s.lab.Nodes[node].Addresses[r.family], s.nodeAt(node, svc).Port())
}

// everyPlace asks a service at its cluster IP and at its node ports on all nodes.
func (s *scene) everyPlace(r reached, from *topology.Namespace) {
	s.Helper()
	svc, pods := s.service("web", r.access, r.port), s.three()
	s.reachesBy(r.ask, from, r.cluster(svc), pods...)
	for node := range s.lab.Nodes {
		s.reachesBy(r.ask, from, r.node(s, node, svc), pods...)
	}
}

// fromEndpoint asks a service from one of its own pods, which may reach itself.
func (s *scene) fromEndpoint(r reached) {
	s.Helper()
	svc, pods := s.service("web", r.access, r.port), s.three()
	s.reachesBy(r.ask, pods[0].namespace, r.cluster(svc), pods...)
	s.reachesBy(r.ask, pods[0].namespace, r.node(s, 0, svc), pods...)
}

// updates deletes a pod and starts another one.
func (s *scene) updates(r reached) {
	s.Helper()
	svc, pods, from := s.service("web", r.access, r.port), s.three(), s.client(0).namespace
	s.reachesBy(r.ask, from, r.cluster(svc), pods...)
	pods[0].delete()
	s.reachesBy(r.ask, from, r.cluster(svc), pods[1:]...)
	s.reachesBy(r.ask, from, r.cluster(svc), append(pods[1:], s.pod("web", 0))...)
}

// hostEndpoints asks a service of pods in the host network from a pod and from a node.
func (s *scene) hostEndpoints(name string, r reached, port uint16) {
	s.Helper()
	svc := s.service(name, r.access, r.port)
	var pods []*pod
	for node := range s.lab.Nodes {
		pods = append(pods, s.hostPod(name, node, port))
	}
	for _, from := range []*topology.Namespace{s.client(0).namespace, s.lab.Nodes[0].Namespace} {
		s.reachesBy(r.ask, from, r.cluster(svc), pods...)
		s.reachesBy(r.ask, from, r.node(s, 0, svc), pods...)
	}
}

// losesNodePort deletes a service that is reached by a node port.
func (s *scene) losesNodePort(ask asker, port *corev1.ServicePort) {
	s.Helper()
	svc, pods := s.service("web", nodePort, port), s.three()
	s.reachesBy(ask, s.lab.Outside, s.nodeAt(0, svc), pods...)
	s.deleteService("web")
	s.unanswered(ask, s.lab.Outside, s.nodeAt(0, svc))
}

// unanswered waits until a client gets no answer.
func (s *scene) unanswered(ask asker, from *topology.Namespace, to netip.AddrPort) {
	s.Helper()
	s.eventually(fmt.Sprintf("nothing from %s", to), func() error {
		if a, err := ask(from, to); err == nil {
			return fmt.Errorf("%s answers", a.pod)
		}
		return nil
	})
}

package parity

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
)

// loadBalancers has the descriptions of loadbalancer.go. The load balancer is the hub, which routes
// an address to one node. The provider is the test, which writes the address into the status.
var loadBalancers = []description{
	{"should be able to change the type and ports of a TCP service", func(s *scene) {
		svc, p := s.service("web", nil), s.pod("web", 1)
		s.reaches(s.client(0).namespace, clusterIP(svc, 80), p)
		svc = s.update("web", func(svc *corev1.Service) { nodePort(svc.GetSpec()) })
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
		s.update("web", func(svc *corev1.Service) { balanced(svc.GetSpec()) })
		ip := s.ingress("web", 0)
		s.reaches(s.lab.Outside, netip.AddrPortFrom(ip, 80), p)
		s.update("web", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 81 })
		s.reaches(s.lab.Outside, netip.AddrPortFrom(ip, 81), p)
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
		p.delete()
		s.refused(s.lab.Outside, netip.AddrPortFrom(ip, 81))
		s.refused(s.lab.Outside, s.nodeAt(0, svc))
		p = s.pod("web", 1)
		s.reaches(s.lab.Outside, netip.AddrPortFrom(ip, 81), p)
		s.update("web", func(svc *corev1.Service) {
			svc.Spec.Type, svc.Spec.Ports[0].NodePort = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, 0
		})
		s.refused(s.lab.Outside, s.nodeAt(0, svc))
		s.reaches(s.client(0).namespace, clusterIP(svc, 81), p)
	}},
	{"should be able to change the type and ports of a UDP service", func(s *scene) {
		svc, p := s.service("web", nodePort, udp("udp", 80, 8080)), s.pod("web", 1)
		s.reachesBy(getUDP, s.lab.Outside, s.nodeAt(0, svc), p)
		s.update("web", func(svc *corev1.Service) { balanced(svc.GetSpec()) })
		ip := s.ingress("web", 0)
		s.reachesBy(getUDP, s.lab.Outside, netip.AddrPortFrom(ip, 80), p)
		s.update("web", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 81 })
		s.reachesBy(getUDP, s.lab.Outside, netip.AddrPortFrom(ip, 81), p)
	}},
	{"should only allow access from service loadbalancer source ranges", func(s *scene) {
		s.service("web", both(balanced, func(spec *corev1.ServiceSpec) { spec.LoadBalancerSourceRanges = []string{"198.18.0.0/16"} }))
		p, ip := s.pod("web", 1), s.ingress("web", 0)
		s.dropped(s.lab.Outside, netip.AddrPortFrom(ip, 80))
		clients := []*pod{s.client(0), s.client(2)}
		for i, allowed := range clients {
			s.update("web", func(svc *corev1.Service) {
				svc.Spec.LoadBalancerSourceRanges = []string{allowed.addrs[0].String() + "/32"}
			})
			s.reaches(allowed.namespace, netip.AddrPortFrom(ip, 80), p)
			s.dropped(clients[1-i].namespace, netip.AddrPortFrom(ip, 80))
		}
		s.update("web", func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = nil })
		for _, from := range []*topology.Namespace{clients[0].namespace, clients[1].namespace, s.lab.Outside} {
			s.reaches(from, netip.AddrPortFrom(ip, 80), p)
		}
	}},
	{"should be able to create LoadBalancer Service without NodePort and change it", func(s *scene) {
		no := false
		svc := s.service("web", both(balanced, func(spec *corev1.ServiceSpec) { spec.AllocateLoadBalancerNodePorts = &no }))
		if port := svc.GetSpec().GetPorts()[0].GetNodePort(); port != 0 {
			s.Errorf("it has node port %d", port)
		}
		p, ip := s.pod("web", 1), s.ingress("web", 0)
		s.reaches(s.lab.Outside, netip.AddrPortFrom(ip, 80), p)
		yes := true
		svc = s.update("web", func(svc *corev1.Service) { svc.Spec.AllocateLoadBalancerNodePorts = &yes })
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
	}},
	{"ExternalTrafficPolicy: Local should work for type=LoadBalancer", func(s *scene) {
		svc := s.service("web", both(balanced, externalLocal))
		p, ip := s.pod("web", 0), s.ingress("web", 0)
		s.reaches(s.lab.Outside, netip.AddrPortFrom(ip, 80), p)
		s.sees(s.lab.Outside, netip.AddrPortFrom(ip, 80), false)
		s.deleteService("web")
		s.refusesHealth(0, svc)
	}},
	{"ExternalTrafficPolicy: Local should only target nodes with endpoints", func(s *scene) {
		svc := s.service("web", both(balanced, externalLocal))
		for node := range s.lab.Nodes {
			s.healthy(node, svc, http.StatusServiceUnavailable)
		}
		p, ip := s.pod("web", 1), s.ingress("web", 1)
		s.healthy(0, svc, http.StatusServiceUnavailable)
		s.healthy(1, svc, http.StatusOK)
		s.reaches(s.lab.Outside, netip.AddrPortFrom(ip, 80), p)
	}},
	{"ExternalTrafficPolicy: Local should target all nodes with endpoints", func(s *scene) {
		svc := s.service("web", both(balanced, externalLocal))
		pods, ip := []*pod{s.pod("web", 0), s.pod("web", 1)}, s.ingress("web", 0)
		for node, p := range pods { // the hub routes to one node at a time
			s.healthy(node, svc, http.StatusOK)
			s.lab.Via(netip.PrefixFrom(ip, 32), s.lab.Nodes[node].Addresses)
			s.reaches(s.lab.Outside, netip.AddrPortFrom(ip, 80), p)
		}
	}},
	{"ExternalTrafficPolicy: Local should work from pods", func(s *scene) {
		s.service("web", both(balanced, externalLocal))
		p, ip := s.pod("web", 0), s.ingress("web", 0)
		for _, from := range s.everywhere() {
			s.reaches(from, netip.AddrPortFrom(ip, 80), p)
		}
	}},
	{"should have session affinity work for LoadBalancer service with Local traffic policy", func(s *scene) {
		s.service("web", both(balanced, externalLocal, sticky))
		s.pod("web", 0)
		s.pod("web", 0)
		s.sticks(get, s.lab.Outside, netip.AddrPortFrom(s.ingress("web", 0), 80))
	}},
	{"should be able to switch session affinity for LoadBalancer service with Local traffic policy", func(s *scene) {
		s.service("web", both(balanced, externalLocal))
		pods := []*pod{s.pod("web", 0), s.pod("web", 0)}
		s.switches(s.lab.Outside, netip.AddrPortFrom(s.ingress("web", 0), 80), pods)
	}},
	{"should have session affinity work for LoadBalancer service with Cluster traffic policy", func(s *scene) {
		s.service("web", both(balanced, sticky))
		s.three()
		s.sticks(get, s.lab.Outside, netip.AddrPortFrom(s.ingress("web", 0), 80))
	}},
	{"should be able to switch session affinity for LoadBalancer service with Cluster traffic policy", func(s *scene) {
		s.service("web", balanced)
		pods := s.three()
		s.switches(s.lab.Outside, netip.AddrPortFrom(s.ingress("web", 0), 80), pods)
	}},
	{"should be able to preserve UDP traffic when server pod cycles for a LoadBalancer service on different nodes", func(s *scene) {
		s.service("web", balanced, udp("udp", 80, 8080))
		s.cycles(s.lab.Outside, netip.AddrPortFrom(s.ingress("web", 0), 80), 1, 2)
	}},
	{"should be able to preserve UDP traffic when server pod cycles for a LoadBalancer service on the same nodes", func(s *scene) {
		s.service("web", balanced, udp("udp", 80, 8080))
		s.cycles(s.lab.Outside, netip.AddrPortFrom(s.ingress("web", 0), 80), 1, 1)
	}},
	{"should not have connectivity disruption during rolling update with externalTrafficPolicy=Cluster", func(s *scene) {
		s.service("web", balanced)
		s.rolls(netip.AddrPortFrom(s.ingress("web", 0), 80), 1, 2)
	}},
	{"should not have connectivity disruption during rolling update with externalTrafficPolicy=Local", func(s *scene) {
		s.service("web", both(balanced, externalLocal))
		s.rolls(netip.AddrPortFrom(s.ingress("web", 0), 80), 0, 0)
	}},
}

func balanced(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER }

// ingresses counts the addresses of load balancers.
var ingresses atomic.Uint32

// ingress gives a service an address of a load balancer that forwards to a node.
func (s *scene) ingress(name string, node int) netip.Addr {
	s.Helper()
	ip := nth(labtest.Balanced[0], ingresses.Add(1))
	s.lab.Via(netip.PrefixFrom(ip, 32), s.lab.Nodes[node].Addresses)
	svc := &corev1.Service{Metadata: s.meta(name), Status: &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{
		Ingress: []*corev1.LoadBalancerIngress{{Ip: ip.String()}},
	}}}
	if _, err := s.services().UpdateServiceStatus(s.Context(), &registryv1.UpdateServiceStatusRequest{Service: svc}); err != nil {
		s.Fatal(err)
	}
	return ip
}

// refusesHealth waits until a node refuses connections to a service's health check port.
func (s *scene) refusesHealth(node int, svc *corev1.Service) {
	s.Helper()
	s.refused(s.lab.Hub, netip.AddrPortFrom(s.lab.Nodes[node].Addresses[0], uint16(svc.GetSpec().GetHealthCheckNodePort())))
}

// rolls replaces pods on two nodes, each after its successor is ready, while a client outside makes
// one connection after the other. None of these may fail.
func (s *scene) rolls(to netip.AddrPort, nodes ...int) {
	s.Helper()
	var old []*pod
	for _, node := range nodes {
		old = append(old, s.pod("web", node))
	}
	s.reaches(s.lab.Outside, to, old...)
	defer s.unbroken(s.lab.Outside, to)()
	current := old
	for i, node := range nodes {
		fresh := s.pod("web", node)
		current = append(current[:i:i], append([]*pod{fresh}, current[i+1:]...)...)
		s.reaches(s.lab.Outside, to, append(current[:len(current):len(current)], old[i])...)
		old[i].delete()
		s.reaches(s.lab.Outside, to, current...)
	}
}

// unbroken makes one connection after the other until stop is called. stop reports the first
// failure.
func (s *scene) unbroken(from *topology.Namespace, to netip.AddrPort) (stop func()) {
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				ended <- nil
				return
			default:
			}
			if _, err := get(from, to); err != nil {
				ended <- fmt.Errorf("connection %d: %w", n, err)
				return
			}
		}
	}()
	return func() {
		s.Helper()
		close(done)
		if err := <-ended; err != nil {
			s.Error(err)
		}
	}
}

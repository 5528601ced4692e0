package parity

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
)

// policies has the descriptions of traffic policies, of service.go and loadbalancer.go.
var policies = []description{
	{"should respect internalTrafficPolicy=Local Pod to Pod", func(s *scene) {
		svc, p := s.service("web", internalLocal), s.pod("web", 0)
		s.reaches(s.client(0).namespace, clusterIP(svc, 80), p)
		s.refused(s.client(1).namespace, clusterIP(svc, 80))
	}},
	{"should respect internalTrafficPolicy=Local Pod (hostNetwork: true) to Pod", func(s *scene) {
		svc, p := s.service("web", internalLocal), s.pod("web", 0)
		s.reaches(s.lab.Nodes[0].Namespace, clusterIP(svc, 80), p)
		s.refused(s.lab.Nodes[1].Namespace, clusterIP(svc, 80))
	}},
	{"should respect internalTrafficPolicy=Local Pod and Node, to Pod (hostNetwork: true)", func(s *scene) {
		const port = 10180 // not used by other descriptions
		svc, p := s.service("web", internalLocal, tcp("http", 80, port)), s.hostPod("web", 0, port)
		for _, from := range []*topology.Namespace{s.client(0).namespace, s.lab.Nodes[0].Namespace} {
			s.reaches(from, clusterIP(svc, 80), p)
		}
		for _, from := range []*topology.Namespace{s.client(1).namespace, s.lab.Nodes[1].Namespace} {
			s.refused(from, clusterIP(svc, 80))
		}
	}},
	{"should support externalTrafficPolicy=Local for type=NodePort", func(s *scene) {
		svc, p := s.service("web", both(nodePort, externalLocal)), s.pod("web", 0)
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
		s.sees(s.lab.Outside, s.nodeAt(0, svc), false)
		s.dropped(s.lab.Outside, s.nodeAt(1, svc))
		s.reaches(s.client(1).namespace, s.nodeAt(1, svc), p) // clients inside reach all endpoints
	}},
	{"should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes", func(s *scene) {
		svc, p := s.service("web", both(balanced, externalLocal)), s.pod("web", 0)
		s.onlyOnNode0(svc, p)
		changed := s.update("web", func(svc *corev1.Service) {
			svc.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER
		})
		if port := changed.GetSpec().GetHealthCheckNodePort(); port != 0 {
			s.Errorf("policy Cluster keeps health check node port %d", port)
		}
		for node := range s.lab.Nodes {
			s.refusesHealth(node, svc)
			s.reaches(s.lab.Nodes[1].Namespace, s.nodeAt(node, svc), p)
		}
		s.update("web", func(changed *corev1.Service) {
			externalLocal(changed.GetSpec())
			changed.Spec.HealthCheckNodePort = svc.GetSpec().GetHealthCheckNodePort()
		})
		s.onlyOnNode0(svc, p)
	}},
	{"ExternalTrafficPolicy: Local should handle updates to ExternalTrafficPolicy field", func(s *scene) {
		svc, p := s.service("web", both(nodePort, externalLocal)), s.pod("web", 0)
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
		s.dropped(s.lab.Outside, s.nodeAt(1, svc))
		s.update("web", func(svc *corev1.Service) {
			svc.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER
		})
		s.reaches(s.lab.Outside, s.nodeAt(1, svc), p)
		s.sees(s.lab.Outside, s.nodeAt(1, svc), true)
		s.update("web", func(svc *corev1.Service) { externalLocal(svc.GetSpec()) })
		s.dropped(s.lab.Outside, s.nodeAt(1, svc))
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
		s.sees(s.lab.Outside, s.nodeAt(0, svc), false)
	}},
}

// terminating has the descriptions of service.go about terminating endpoints, which are used only
// as the last resort. One name is misspelled there, and therefore here.
var terminating = []description{
	{"should fallback to terminating endpoints when there are no ready endpoints with internalTrafficPolicy=Cluster", func(s *scene) {
		svc, from, p := s.service("web", nil), s.client(1).namespace, s.pod("web", 0, held)
		s.reaches(from, clusterIP(svc, 80), p)
		p.delete()
		s.terminates("web", p)
		s.reaches(from, clusterIP(svc, 80), p)
		q := s.pod("web", 1)
		s.reaches(from, clusterIP(svc, 80), q)
	}},
	{"should fallback to local terminating endpoints when there are no ready endpoints with internalTrafficPolicy=Local", func(s *scene) {
		svc, p := s.service("web", internalLocal), s.pod("web", 0, held)
		s.reaches(s.client(0).namespace, clusterIP(svc, 80), p)
		p.delete()
		s.terminates("web", p)
		s.reaches(s.client(0).namespace, clusterIP(svc, 80), p)
		s.refused(s.client(1).namespace, clusterIP(svc, 80))
	}},
	{"should fallback to terminating endpoints when there are no ready endpoints with externallTrafficPolicy=Cluster", func(s *scene) {
		svc, p := s.service("web", nodePort), s.pod("web", 0, held)
		s.reaches(s.lab.Outside, s.nodeAt(1, svc), p)
		p.delete()
		s.terminates("web", p)
		s.reaches(s.lab.Outside, s.nodeAt(1, svc), p)
	}},
	{"should fallback to local terminating endpoints when there are no ready endpoints with externalTrafficPolicy=Local", func(s *scene) {
		svc, p := s.service("web", both(nodePort, externalLocal)), s.pod("web", 0, held)
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
		p.delete()
		s.terminates("web", p)
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
		s.dropped(s.lab.Outside, s.nodeAt(1, svc))
	}},
	{"should fail health check node port if there are only terminating endpoints", func(s *scene) {
		svc, p := s.service("web", both(balanced, externalLocal)), s.pod("web", 0, held)
		s.healthy(0, svc, http.StatusOK)
		s.healthy(1, svc, http.StatusServiceUnavailable)
		p.delete()
		s.terminates("web", p)
		s.healthy(0, svc, http.StatusServiceUnavailable)
		s.reaches(s.client(0).namespace, s.nodeAt(0, svc), p)
	}},
}

// onlyOnNode0 checks a service of policy Local with its only pod on node 0: node 0 alone is healthy and
// serves clients from outside, and node 1 serves clients on itself.
func (s *scene) onlyOnNode0(svc *corev1.Service, p *pod) {
	s.Helper()
	for node, status := range []int{http.StatusOK, http.StatusServiceUnavailable, http.StatusServiceUnavailable} {
		s.healthy(node, svc, status)
	}
	from := s.lab.Nodes[1].Namespace
	s.reaches(from, s.nodeAt(0, svc), p)
	s.sees(from, s.nodeAt(0, svc), false)
	s.reaches(from, s.nodeAt(1, svc), p)
	s.dropped(from, s.nodeAt(2, svc))
}

// terminates waits until a pod's endpoint has the condition terminating.
func (s *scene) terminates(service string, p *pod) {
	s.Helper()
	s.eventually("the slice says that "+p.name+" terminates", func() error {
		for _, slice := range s.slices(service) {
			for _, ep := range slice.GetEndpoints() {
				if ep.GetTargetRef().GetName() == p.name && ep.GetConditions().GetTerminating() {
					return nil
				}
			}
		}
		return fmt.Errorf("%v", s.slices(service))
	})
}

// healthy waits until a node's health check of a service returns a status.
func (s *scene) healthy(node int, svc *corev1.Service, want int) {
	s.Helper()
	url := fmt.Sprintf("http://%s/healthz", netip.AddrPortFrom(s.lab.Nodes[node].Addresses[0], uint16(svc.GetSpec().GetHealthCheckNodePort())))
	s.eventually(fmt.Sprintf("%s says %d", url, want), func() error {
		got, err := http.Get(url)
		if err != nil {
			return err
		}
		_ = got.Body.Close()
		if got.StatusCode != want {
			return fmt.Errorf("%d", got.StatusCode)
		}
		return nil
	})
}

// sees checks whether a server sees the client's own address, or another one if hidden is true.
func (s *scene) sees(from *topology.Namespace, to netip.AddrPort, hidden bool) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s hides clients: %v", to, hidden), func() error {
		conn, a, err := connect(from, to)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		own := conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if (own != a.client.Addr()) != hidden {
			return fmt.Errorf("the server sees %s of a client at %s", a.client.Addr(), own)
		}
		return nil
	})
}

package parity

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
)

// affinity has the descriptions of session affinity by client, of service.go and
// localhost_nodeports.go.
var affinity = []description{
	{"should have session affinity work for service with type clusterIP", func(s *scene) {
		svc, from := s.service("web", sticky), s.client(0).namespace
		s.three()
		s.sticks(get, from, clusterIP(svc, 80))
	}},
	{"should be able to switch session affinity for service with type clusterIP", func(s *scene) {
		svc, from, pods := s.service("web", nil), s.client(0).namespace, s.three()
		s.switches(from, clusterIP(svc, 80), pods)
	}},
	{"should have session affinity timeout work for service with type clusterIP", func(s *scene) {
		svc, from := s.service("web", both(sticky, forgetful)), s.client(0).namespace
		s.three()
		s.forgets(from, clusterIP(svc, 80))
	}},
	{"should have session affinity work for NodePort service", func(s *scene) {
		svc := s.service("web", both(sticky, nodePort))
		s.three()
		s.sticks(get, s.lab.Outside, s.nodeAt(0, svc))
	}},
	{"should be able to switch session affinity for NodePort service", func(s *scene) {
		svc, pods := s.service("web", nodePort), s.three()
		s.switches(s.lab.Outside, s.nodeAt(0, svc), pods)
	}},
	{"should have session affinity timeout work for NodePort service", func(s *scene) {
		svc := s.service("web", both(sticky, forgetful, nodePort))
		s.three()
		s.forgets(s.lab.Outside, s.nodeAt(0, svc))
	}},
	{"should honor sessionAffinity=ClientIP for localhost NodePort", func(s *scene) {
		svc := s.service("web", both(sticky, nodePort))
		s.pod("web", 0)
		s.pod("web", 0)
		s.pod("web", 1)
		for _, to := range loopback(svc) {
			s.sticks(get, s.lab.Nodes[0].Namespace, to)
		}
	}},
}

// timeout is the affinity timeout of forgetful services, in seconds.
const timeout = 1

func forgetful(spec *corev1.ServiceSpec) {
	seconds := int32(timeout)
	spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIp: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
}

// three starts a pod of web on each node.
func (s *scene) three() (pods []*pod) {
	s.Helper()
	for node := range s.lab.Nodes {
		pods = append(pods, s.pod("web", node))
	}
	return pods
}

// sticks waits until one pod answers all of a client's connections.
func (s *scene) sticks(ask asker, from *topology.Namespace, to netip.AddrPort) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s sticks", to), func() error {
		first := ""
		for range 15 {
			a, err := ask(from, to)
			switch {
			case err != nil:
				return err
			case first == "":
				first = a.pod
			case first != a.pod:
				return fmt.Errorf("%s answers, and then %s", first, a.pod)
			}
		}
		return nil
	})
}

// switches turns affinity on and off again.
func (s *scene) switches(from *topology.Namespace, to netip.AddrPort, pods []*pod) {
	s.Helper()
	s.reaches(from, to, pods...)
	s.update("web", func(svc *corev1.Service) { sticky(svc.GetSpec()) })
	s.sticks(get, from, to)
	s.update("web", func(svc *corev1.Service) {
		svc.Spec.SessionAffinity, svc.Spec.SessionAffinityConfig = corev1.SessionAffinity_SESSION_AFFINITY_NONE, nil
	})
	s.reaches(from, to, pods...)
}

// forgets waits until a client reaches another pod after a pause longer than the timeout.
func (s *scene) forgets(from *topology.Namespace, to netip.AddrPort) {
	s.Helper()
	s.sticks(get, from, to)
	s.eventually(fmt.Sprintf("%s forgets", to), func() error {
		before, err := get(from, to)
		if err != nil {
			return err
		}
		<-time.After(timeout*time.Second + time.Second/2)
		after, err := get(from, to)
		if err == nil && after.pod == before.pod {
			err = fmt.Errorf("%s again", after.pod)
		}
		return err
	})
}

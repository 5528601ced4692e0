package parity

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
)

// conntrack has the descriptions of conntrack.go: flows that outlive the kernel's connection
// tracking entries.
var conntrack = []description{
	{"should be able to preserve UDP traffic when server pod cycles for a NodePort service", func(s *scene) {
		svc := s.service("web", nodePort, udp("udp", 80, 8080))
		s.cycles(s.lab.Outside, s.nodeAt(0, svc), 1, 2)
	}},
	{"should be able to preserve UDP traffic when server pod cycles for a ClusterIP service", func(s *scene) {
		svc := s.service("web", nil, udp("udp", 80, 8080))
		s.cycles(s.client(0).namespace, clusterIP(svc, 80), 1, 2)
	}},
	{"should be able to preserve UDP traffic when server pod cycles for a ClusterIP service and client is hostNetwork", func(s *scene) {
		svc := s.service("web", nil, udp("udp", 80, 8080))
		s.cycles(s.lab.Nodes[0].Namespace, clusterIP(svc, 80), 1, 2)
	}},
	{"should be able to preserve UDP traffic when server pod cycles for a ClusterIP service with InternalTrafficPolicy set to Local", func(s *scene) {
		svc, from := s.service("web", internalLocal, udp("udp", 80, 8080)), s.client(0).namespace
		conn := s.flow(from, clusterIP(svc, 80))
		defer keepSending(conn)()
		local, remote := s.pod("web", 0), s.pod("web", 1)
		s.flows(conn, local)
		s.endpoints("web", local.addrs[0].String()+" udp:8080", remote.addrs[0].String()+" udp:8080")
		local.delete()
		s.unanswered(getUDP, from, clusterIP(svc, 80)) // remote does not serve this client
		s.flows(conn, s.pod("web", 0))
	}},
	{"should be able to preserve UDP traffic when initial unready endpoints get ready", func(s *scene) {
		svc := s.service("web", nil, udp("udp", 80, 8080))
		conn := s.flow(s.client(0).namespace, clusterIP(svc, 80))
		p := s.pod("web", 1, gated)
		if a, err := send(conn, 10, silence); err == nil {
			s.Errorf("%s answers before it is ready", a.pod)
		}
		p.open(true)
		s.flows(conn, p)
	}},
	{"should be able to cleanup conntrack entries when UDP service target port changes for a NodePort service", func(s *scene) {
		svc, p := s.service("web", nodePort, udp("udp", 80, 8080)), s.pod("web", 1)
		conn := s.flow(s.lab.Outside, s.nodeAt(0, svc))
		s.flows(conn, p)
		s.update("web", func(svc *corev1.Service) {
			svc.Spec.Ports[0].TargetPort = &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: 8081}}
		})
		s.eventually("the flow comes to the new port", func() error {
			if a, err := send(conn, 10, silence); err != nil || a.port != 8081 {
				return fmt.Errorf("port %d: %w", a.port, orSuccess(err))
			}
			return nil
		})
	}},
}

// flow opens a socket that sends from one source port.
func (s *scene) flow(from *topology.Namespace, to netip.AddrPort) net.Conn {
	s.Helper()
	conn, err := socket(from, to, 0)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	return conn
}

// flows waits until a pod answers a flow.
func (s *scene) flows(conn net.Conn, p *pod) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s answers the flow", p.name), func() error {
		a, err := send(conn, 10, silence)
		if err == nil && a.pod != p.name {
			err = fmt.Errorf("%s answers", a.pod)
		}
		return err
	})
}

// cycles keeps a flow going while the pod behind the service web is replaced by one on another
// node.
func (s *scene) cycles(from *topology.Namespace, to netip.AddrPort, nodes ...int) {
	s.Helper()
	conn := s.flow(from, to)
	defer keepSending(conn)()
	var last *pod
	for _, node := range nodes {
		p := s.pod("web", node)
		if last != nil {
			last.delete()
		}
		s.flows(conn, p)
		last = p
	}
}

// keepSending sends datagrams until stop is called, also while there is no backend. The kernel must
// not keep that state.
func keepSending(conn net.Conn) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
				_, _ = conn.Write([]byte("x"))
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

package parity

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/cli"
	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// services has the descriptions of service.go about cluster IPs.
var services = []description{
	{"should serve a basic endpoint from pods", func(s *scene) {
		vip, from := clusterIP(s.service("web", nil), 80), s.client(0).namespace
		s.refused(from, vip)
		a := s.pod("web", 1)
		s.reaches(from, vip, a)
		b := s.pod("web", 2)
		s.reaches(from, vip, a, b)
		a.delete()
		s.reaches(from, vip, b)
		b.delete()
		s.refused(from, vip)
	}},
	{"should serve multiport endpoints from pods", func(s *scene) {
		svc, from := s.service("web", nil, tcp("http", 80, 8080), tcp("alt", 81, 8081)), s.client(0).namespace
		p := s.pod("web", 1)
		for port, target := range map[int32]uint16{80: 8080, 81: 8081} {
			s.reaches(from, clusterIP(svc, port), p)
			if a, err := get(from, clusterIP(svc, port)); err != nil || a.port != target {
				s.Errorf("port %d leads to %d, want %d: %v", port, a.port, target, err)
			}
		}
	}},
	{"should be updated after adding or deleting ports", func(s *scene) {
		svc, from, p := s.service("web", nil), s.client(0).namespace, s.pod("web", 1)
		s.reaches(from, clusterIP(svc, 80), p)
		s.update("web", func(svc *corev1.Service) { svc.Spec.Ports = append(svc.GetSpec().GetPorts(), tcp("alt", 81, 8081)) })
		s.reaches(from, clusterIP(svc, 81), p)
		s.reaches(from, clusterIP(svc, 80), p)
		s.update("web", func(svc *corev1.Service) { svc.Spec.Ports = svc.GetSpec().GetPorts()[1:] })
		s.refused(from, clusterIP(svc, 80))
		s.reaches(from, clusterIP(svc, 81), p)
	}},
	{"should preserve source pod IP for traffic thru service cluster IP", func(s *scene) {
		svc, p := s.service("web", nil), s.pod("web", 1)
		for node := range s.lab.Nodes {
			c := s.client(node)
			s.reaches(c.namespace, clusterIP(svc, 80), p)
			if a, err := get(c.namespace, clusterIP(svc, 80)); err != nil || a.client.Addr() != c.addrs[0] {
				s.Errorf("the server sees %s of a client at %s: %v", a.client.Addr(), c.addrs[0], err)
			}
		}
	}},
	{"should allow pods to hairpin back to themselves through services", func(s *scene) {
		svc, p := s.service("web", nil), s.pod("web", 1)
		s.reaches(p.namespace, clusterIP(svc, 80), p)
	}},
	{"should be able to up and down services", func(s *scene) {
		vips, pods := map[string]netip.AddrPort{}, map[string]*pod{}
		for n, name := range []string{"one", "two"} {
			vips[name], pods[name] = clusterIP(s.service(name, nil), 80), s.pod(name, n)
		}
		all := s.everywhere()
		for _, from := range all {
			s.reaches(from, vips["one"], pods["one"])
			s.reaches(from, vips["two"], pods["two"])
		}
		s.deleteService("one")
		three, p := s.service("three", nil), s.pod("three", 2)
		for _, from := range all {
			s.refused(from, vips["one"])
			s.reaches(from, vips["two"], pods["two"])
			s.reaches(from, clusterIP(three, 80), p)
		}
	}},
	{"should work after the service has been recreated", func(s *scene) {
		svc, from, p := s.service("web", nil), s.client(0).namespace, s.pod("web", 1)
		s.reaches(from, clusterIP(svc, 80), p)
		s.deleteService("web")
		s.refused(from, clusterIP(svc, 80))
		again := s.service("web", func(spec *corev1.ServiceSpec) {
			spec.ClusterIp, spec.ClusterIps = svc.GetSpec().GetClusterIp(), svc.GetSpec().GetClusterIps()
		})
		s.reaches(from, clusterIP(again, 80), p)
	}},
	{"should find a service from listing all namespaces", func(s *scene) {
		s.service("web", nil)
		kind, _ := kinds.Named("Service")
		found, _, err := s.lab.Registry.List(s.Context(), kind, client.Query{})
		if err != nil || !slices.ContainsFunc(found, func(o object.Object) bool {
			return o.GetMetadata().GetNamespace() == s.namespace && o.GetMetadata().GetName() == "web"
		}) {
			s.Errorf("not among %d services: %v", len(found), err)
		}
	}},
	{"should complete a service status lifecycle", func(s *scene) {
		svc := s.service("web", balanced)
		status := &corev1.ServiceStatus{Conditions: []*corev1.Condition{{
			Type: "StatusUpdate", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE, Reason: "E2E", Message: "Set from an e2e test",
		}}}
		svc.Status = status
		got, err := s.services().UpdateServiceStatus(s.Context(), &registryv1.UpdateServiceStatusRequest{Service: svc})
		if err != nil || got.GetService().GetStatus().GetConditions()[0].GetReason() != "E2E" {
			s.Fatalf("status %v: %v", got.GetService().GetStatus(), err)
		}
		if kept := s.update("web", func(svc *corev1.Service) { svc.Status = nil }); len(kept.GetStatus().GetConditions()) != 1 {
			s.Errorf("an update of the rest took the status: %v", kept.GetStatus())
		}
		s.deleteService("web")
	}},
	{"should serve endpoints on same port and different protocols", func(s *scene) {
		svc := s.service("web", nil, tcp("tcp-port", 80, 8080), udp("udp-port", 80, 8080))
		vip, from, p := clusterIP(svc, 80), s.client(0).namespace, s.pod("web", 1)
		s.reaches(from, vip, p)
		s.reachesBy(getUDP, from, vip, p)
		s.update("web", func(svc *corev1.Service) { svc.Spec.Ports = svc.GetSpec().GetPorts()[1:] })
		s.refused(from, vip)
		s.reachesBy(getUDP, from, vip, p)
	}},
	{"should serve endpoints on same port and different protocol for internal traffic on Type LoadBalancer", func(s *scene) {
		svc := s.service("web", balanced, tcp("tcp-port", 80, 8080), udp("udp-port", 80, 8080))
		from, p := s.client(0).namespace, s.pod("web", 1)
		s.reaches(from, clusterIP(svc, 80), p)
		s.reachesBy(getUDP, from, clusterIP(svc, 80), p)
		s.reaches(from, s.nodeAt(0, svc), p)
		second := netip.AddrPortFrom(s.nodeAt(0, svc).Addr(), uint16(svc.GetSpec().GetPorts()[1].GetNodePort()))
		s.reachesBy(getUDP, from, second, p)
	}},
	{"should support named targetPorts that resolve to different ports on different endpoints", func(s *scene) {
		svc, from := s.service("web", nil, named("http", 80, "http")), s.client(0).namespace
		a, b := s.pod("web", 1), s.pod("web", 2)
		s.reaches(from, clusterIP(svc, 80), a, b)
		a.delete()
		c := s.pod("web", 1, onPort8081)
		s.reaches(from, clusterIP(svc, 80), b, c)
		b.delete()
		d := s.pod("web", 2, onPort8081)
		s.reaches(from, clusterIP(svc, 80), c, d)
	}},
	{"should connect to the ports exposed by restartable init containers", func(s *scene) {
		s.reachesSidecar(tcp("http", 80, 8081))
	}},
	{"should connect to the named ports exposed by restartable init containers", func(s *scene) {
		s.reachesSidecar(named("http", 80, "sidecar"))
	}},
	{"should be rejected when no endpoints exist", func(s *scene) {
		svc := s.service("web", nodePort)
		for _, from := range s.everywhere() {
			s.refused(from, clusterIP(svc, 80))
			s.refused(from, s.nodeAt(1, svc))
		}
		s.refused(s.lab.Outside, s.nodeAt(1, svc))
	}},
	{"should be rejected for evicted pods (no endpoints exist)", func(s *scene) {
		svc, from := s.service("web", publishNotReady), s.client(0).namespace
		p := s.pod("web", 1)
		s.reaches(from, clusterIP(svc, 80), p)
		s.fail(p, "Evicted")
		s.refused(from, clusterIP(svc, 80))
	}},
	{"should create endpoints for unready pods", func(s *scene) {
		svc, from := s.service("web", publishNotReady), s.client(0).namespace
		p := s.pod("web", 1, gated, held)
		s.reaches(from, clusterIP(svc, 80), p)
		p.delete() // the finalizer keeps the pod
		s.update("web", func(svc *corev1.Service) { svc.Spec.PublishNotReadyAddresses = false })
		s.refused(from, clusterIP(svc, 80))
		s.update("web", func(svc *corev1.Service) { svc.Spec.PublishNotReadyAddresses = true })
		s.reaches(from, clusterIP(svc, 80), p)
	}},
	{"should be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is true", func(s *scene) {
		svc, from := s.service("web", both(publishNotReady, nodePort)), s.client(0).namespace
		p := s.pod("web", 1, gated, held)
		s.reaches(from, clusterIP(svc, 80), p)
		p.delete() // the finalizer keeps the pod
		s.terminates("web", p)
		s.reaches(from, clusterIP(svc, 80), p)
		s.reaches(s.lab.Outside, s.nodeAt(0, svc), p)
	}},
	{"should not be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is false", func(s *scene) {
		svc, from := s.service("web", nodePort), s.client(1).namespace
		p := s.pod("web", 0, gated, held)
		p.open(true)
		s.reaches(from, clusterIP(svc, 80), p)
		p.delete() // the finalizer keeps the pod
		s.terminates("web", p)
		s.reaches(from, clusterIP(svc, 80), p) // it is the last endpoint and still serves
		p.open(false)
		s.refused(from, clusterIP(svc, 80))
		s.refused(from, s.nodeAt(0, svc))
		s.refused(from, s.nodeAt(1, svc))
	}},
	{"should allow creating a basic SCTP service with pod and endpoints", func(s *scene) {
		s.service("web", nil, servicePort("sctp", 5060, 5060, corev1.Protocol_PROTOCOL_SCTP))
		p := s.pod("web", 1)
		s.eventually("a slice", func() error {
			for _, slice := range s.slices("web") {
				if len(slice.GetEndpoints()) == 1 && slice.GetPorts()[0].GetProtocol() == corev1.Protocol_PROTOCOL_SCTP {
					if got := slice.GetEndpoints()[0].GetAddresses()[0]; got != p.addrs[0].String() {
						return fmt.Errorf("of %s", got)
					}
					return nil
				}
			}
			return fmt.Errorf("none with SCTP: %v", s.slices("web"))
		})
	}},
	{"should implement service.kubernetes.io/service-proxy-name", func(s *scene) {
		s.leaves("service.kubernetes.io/service-proxy-name", "other-proxy")
	}},
	{"should implement service.kubernetes.io/headless", func(s *scene) { s.leaves("service.kubernetes.io/headless", "") }},
	{"should delete a collection of services", func(s *scene) {
		s.service("one", nil)
		s.service("two", nil)
		s.service("keep", nil)
		for _, name := range []string{"one", "two"} {
			s.update(name, func(svc *corev1.Service) { svc.Metadata.Labels = map[string]string{"round": "one"} })
		}
		var out, errOut bytes.Buffer
		args := []string{"delete", "services", "-n", s.namespace, "-l", "round=one", "--server", s.lab.Conn.Target()}
		if code := cli.Main(s.Context(), args, strings.NewReader(""), &out, &errOut); code != 0 {
			s.Fatalf("exit code %d\n%s%s", code, &out, &errOut)
		}
		for name, there := range map[string]bool{"one": false, "two": false, "keep": true} {
			if err := s.found("Service", name); (err == nil) != there {
				s.Errorf("%s is there: %v", name, err)
			}
		}
	}},
	{"should be possible to connect to a service via ExternalIP when the external IP is not assigned to a node", func(s *scene) {
		const ip = "198.51.100.77"
		s.service("web", func(spec *corev1.ServiceSpec) { spec.ExternalIps = []string{ip} })
		p := s.pod("web", 1)
		s.lab.Via(netip.MustParsePrefix(ip+"/32"), s.lab.Nodes[0].Addresses)
		s.reaches(s.client(0).namespace, at(ip, 80), p)
		s.reaches(s.lab.Outside, at(ip, 80), p)
	}},
}

// leaves sets a label that takes a live service away from the nodes, and removes it again.
func (s *scene) leaves(label, value string) {
	s.Helper()
	svc, p, from := s.service("web", nil), s.pod("web", 1), s.client(0).namespace
	s.reaches(from, clusterIP(svc, 80), p)
	s.update("web", func(svc *corev1.Service) { svc.Metadata.Labels = map[string]string{label: value} })
	s.unanswered(get, from, clusterIP(svc, 80))
	s.update("web", func(svc *corev1.Service) { svc.Metadata.Labels = nil })
	s.reaches(from, clusterIP(svc, 80), p)
}

// publishNotReady publishes pods that are not ready as endpoints.
func publishNotReady(spec *corev1.ServiceSpec) { spec.PublishNotReadyAddresses = true }

// onPort8081 sets the number of a pod's port named http to 8081.
func onPort8081(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 8081 }

// reachesSidecar connects to a service with a port that leads to port 8081 of a restartable init
// container.
func (s *scene) reachesSidecar(port *corev1.ServicePort) {
	s.Helper()
	svc, from, always := s.service("web", nil, port), s.client(0).namespace, "Always"
	p := s.pod("web", 1, func(p *corev1.Pod) {
		p.Spec.InitContainers = []*corev1.Container{{
			Name: "sidecar", RestartPolicy: &always, Ports: []*corev1.ContainerPort{
				{Name: "sidecar", ContainerPort: 8081, Protocol: corev1.Protocol_PROTOCOL_TCP},
			},
		}}
	})
	s.reaches(from, clusterIP(svc, 80), p)
	if a, err := get(from, clusterIP(svc, 80)); err != nil || a.port != 8081 {
		s.Errorf("port %d answers: %v", a.port, err)
	}
}

// fail sets the status of a pod to failed.
func (s *scene) fail(p *pod, reason string) {
	s.Helper()
	s.eventually("the end of "+p.name, func() error {
		got, err := s.pods().GetPod(s.Context(), &registryv1.GetPodRequest{Namespace: s.namespace, Name: p.name})
		if err != nil {
			return err
		}
		o := got.GetPod()
		o.Status.Phase, o.Status.Reason = corev1.PodPhase_POD_PHASE_FAILED, reason
		_, err = s.pods().UpdatePodStatus(s.Context(), &registryv1.UpdatePodStatusRequest{Pod: o})
		return err
	})
}

// held gives a pod a finalizer, so that it stays, terminating, after its deletion.
func held(p *corev1.Pod) { p.Metadata.Finalizers = []string{"parity.test/held"} }

// slices lists the slices of a service.
func (s *scene) slices(service string) []*corev1.EndpointSlice {
	s.Helper()
	got, err := registryv1.NewEndpointSliceServiceClient(s.lab.Conn).ListEndpointSlices(s.Context(), &registryv1.ListEndpointSlicesRequest{
		Namespace: s.namespace, LabelSelector: "kubernetes.io/service-name=" + service,
	})
	if err != nil {
		s.Fatal(err)
	}
	return got.GetEndpointSlices()
}

package check

import (
	"net/netip"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// service returns a service with an address and a node port.
func service(name, ip string, nodePort int32) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "ns", Name: name, Uid: name},
		Spec: &corev1.ServiceSpec{
			ClusterIp: ip, ClusterIps: []string{ip}, Selector: map[string]string{"app": name},
			Ports: []*corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP, NodePort: nodePort}},
		},
	}
}

// endpointSlice returns a slice of the service web with these ready addresses, as the endpoint
// controller makes it.
func endpointSlice(addresses ...string) *corev1.EndpointSlice {
	name, port := "http", int32(8080)
	s := &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{Namespace: "ns", Name: "web-1", Labels: map[string]string{
			"kubernetes.io/service-name": "web", object.LabelManagedBy: "endpointslice-controller.k8s.io",
		}},
		Ports: []*corev1.EndpointPort{{Name: &name, Port: &port, Protocol: corev1.Protocol_PROTOCOL_TCP}},
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, &corev1.Endpoint{Addresses: []string{a}})
	}
	return s
}

func dnsAnswer(name string, began float64, rcode string, records ...string) func(*historyBuilder) {
	return func(s *historyBuilder) {
		s.DNSAnswers = append(s.DNSAnswers, history.DNSAnswer{
			Server: "dns", Name: name, Type: "A", Began: second(began), Ended: second(began + 0.1), Rcode: rcode, Records: records,
		})
	}
}

func fault(from, to float64) func(*historyBuilder) {
	return func(s *historyBuilder) {
		s.Faults = append(s.Faults, history.Fault{Description: "cut", Began: second(from), Ended: second(to)})
	}
}

func TestNames(t *testing.T) {
	const name = "web.ns.svc.cluster.local."
	headless := service("web", "None", 0)
	// The address is 10.0.0.1 from second 1 on and 10.0.0.2 from second 10 on. The service is
	// deleted at second 20.
	log := func(s *historyBuilder) {
		put(service("web", "10.0.0.1", 0))(s)
		s.lastRevision = 9
		put(service("web", "10.0.0.2", 0))(s)
		s.lastRevision = 19
		del(service("web", "10.0.0.2", 0))(s)
	}
	c := Names{Lag: time.Second}
	runTests(t, []checkerTest{
		{"current", c, build(log, dnsAnswer(name, 5, "NOERROR", "10.0.0.1")), ""},
		{"before the creation", c, build(log, dnsAnswer(name, 1.5, "NXDOMAIN")), ""},
		{"before the creation, but too late", c, build(log, dnsAnswer(name, 3, "NXDOMAIN")), `answered "NXDOMAIN "`},
		{"outdated", c, build(log, dnsAnswer(name, 10.9, "NOERROR", "10.0.0.1")), ""},
		{"outdated for too long", c, build(log, dnsAnswer(name, 12, "NOERROR", "10.0.0.1")), `answered "NOERROR 10.0.0.1"`},
		{"outdated during a fault", c, build(log, fault(9, 13), dnsAnswer(name, 14, "NOERROR", "10.0.0.1")), ""},
		{"outdated for too long after a fault", c, build(log, fault(9, 13), dnsAnswer(name, 18, "NOERROR", "10.0.0.1")), "answered"},
		{"from the future", c, build(log, dnsAnswer(name, 5, "NOERROR", "10.0.0.2")), "answered"},
		{"an address of no service", c, build(log, dnsAnswer(name, 5, "NOERROR", "10.9.9.9")), "answered"},
		{"empty", c, build(log, dnsAnswer(name, 5, "NOERROR")), `answered "NOERROR "`},
		{"deleted", c, build(log, dnsAnswer(name, 30, "NXDOMAIN")), ""},
		{"SERVFAIL", c, build(log, dnsAnswer(name, 5, "SERVFAIL")), ""},
		{"no answer", c, build(log, dnsAnswer(name, 5, "")), ""},
		{"headless", c, build(put(headless), put(endpointSlice("10.1.0.1", "10.1.0.2")), dnsAnswer(name, 5, "NOERROR", "10.1.0.1", "10.1.0.2")), ""},
		{"headless, an endpoint is missing", c, build(put(headless), put(endpointSlice("10.1.0.1", "10.1.0.2")), dnsAnswer(name, 5, "NOERROR", "10.1.0.1")), "answered"},
		{"headless without endpoints", c, build(put(headless), put(endpointSlice()), dnsAnswer(name, 5, "NXDOMAIN")), ""},
	})
}

var (
	virtualIP    = netip.MustParseAddrPort("10.0.0.1:80")
	nodePort     = netip.MustParseAddrPort("192.0.2.1:30001")
	backend      = netip.MustParseAddrPort("10.1.0.1:8080")
	otherBackend = netip.MustParseAddrPort("10.1.0.9:8080")
)

func lostConnection(began, at float64, backend netip.AddrPort) func(*historyBuilder) {
	return func(s *historyBuilder) {
		s.Connections = append(s.Connections, history.Connection{
			Client: "keeper", Target: virtualIP, Backend: backend, Began: second(began), Lost: second(at), Error: "reset",
		})
	}
}

func probe(began float64, backend netip.AddrPort) func(*historyBuilder) {
	return probeAt(virtualIP, began, backend)
}

func probeAt(target netip.AddrPort, began float64, backend netip.AddrPort) func(*historyBuilder) {
	return func(s *historyBuilder) {
		s.Probes = append(s.Probes, history.Probe{Client: "prober", Target: target, Backend: backend, Began: second(began), Ended: second(began + 0.1)})
	}
}

func TestConnections(t *testing.T) {
	// The service has the backend from second 2 to second 10.
	log := func(s *historyBuilder) {
		put(service("web", "10.0.0.1", 0))(s)
		put(endpointSlice("10.1.0.1", "10.1.0.2"))(s)
		s.lastRevision = 9
		put(endpointSlice("10.1.0.2"))(s)
	}
	c := Connections{Lag: time.Second}
	runTests(t, []checkerTest{
		{"kept", c, build(log, func(s *historyBuilder) {
			s.Connections = append(s.Connections, history.Connection{Target: virtualIP, Backend: backend, Began: second(3)})
		}), ""},
		{"lost with its backend", c, build(log, lostConnection(3, 12, backend)), ""},
		{"lost without a reason", c, build(log, lostConnection(3, 9, backend)), "though the service had the backend 10.1.0.1:8080 all the time: reset"},
		{"an expected loss", Connections{LossExpected: func(history.Connection) bool { return true }}, build(log, lostConnection(3, 9, backend)), ""},
		{"lost when another backend was removed", c, build(log, lostConnection(3, 12, netip.MustParseAddrPort("10.1.0.2:8080"))), "all the time"},
		{"lost with its service", c, build(log, del(service("web", "10.0.0.1", 0)), lostConnection(3, 12, netip.MustParseAddrPort("10.1.0.2:8080"))), ""},
		{"answered", c, build(log, probe(5, backend)), ""},
		{"answered by a backend that was just removed", c, build(log, probe(10.5, backend)), ""},
		{"answered by a backend that was removed long ago", c, build(log, probe(15, backend)), "10.1.0.1:8080 through 10.0.0.1:80, which is not a backend"},
		{"answered at a node port", c, build(put(service("web", "10.0.0.1", 30001)), put(endpointSlice("10.1.0.1")), probeAt(nodePort, 5, backend)), ""},
		{"answered by another backend at a node port", c, build(put(service("web", "10.0.0.1", 30001)), put(endpointSlice("10.1.0.1")), probeAt(nodePort, 5, otherBackend)),
			"10.1.0.9:8080 through 192.0.2.1:30001, which is not a backend"},
		{"answered by another backend", c, build(log, probe(5, otherBackend)), "which is not a backend of the service"},
	})
}

func allocationList(began float64, allocations ...history.Allocation) func(*historyBuilder) {
	return func(s *historyBuilder) {
		s.AllocationLists = append(s.AllocationLists, history.AllocationList{Began: second(began), Ended: second(began + 0.1), Allocations: allocations})
	}
}

func TestAllocations(t *testing.T) {
	a, b := service("a", "10.0.0.1", 30001), service("b", "10.0.0.2", 30002)
	ip, port := history.Allocation{Value: "10.0.0.1", UID: "a"}, history.Allocation{Value: "30001", UID: "a"}
	moved := object.Clone(a)
	moved.Metadata.Name, moved.Metadata.Uid = "c", "c"
	twice := object.Clone(b)
	twice.Spec.Ports[0].NodePort = 30001
	balanced, thief := object.Clone(a), object.Clone(b)
	for _, svc := range []*corev1.Service{balanced, thief} {
		svc.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "203.0.113.1"}}}}
	}
	c := Allocations{Grace: 10 * time.Second}
	lost := Allocations{Grace: 10 * time.Second, Incomplete: func(_ *history.History, list history.AllocationList) bool { return list.Began.Before(second(6)) }}
	runTests(t, []checkerTest{
		{"different values", c, build(put(a), put(b), del(b)), ""},
		{"reused after a deletion", c, build(put(a), del(a), put(moved)), ""},
		{"an address twice", c, build(put(a), put(moved)), "revision 2 assigns 10.0.0.1, which Service ns/a has already"},
		{"a port twice", c, build(put(a), put(twice)), "revision 2 assigns 30001, which Service ns/a has already"},
		{"an address of a load balancer twice", c, build(put(balanced), put(thief)), "revision 2 assigns 203.0.113.1, which Service ns/a has already"},
		{"an address of a load balancer that was given back", c, build(put(balanced), put(a), put(thief)), ""},
		{"an address of a load balancer that is not allocated", c, build(put(balanced), allocationList(5, ip, port)), "203.0.113.1 belongs to the service with the UID a"},
		{"not allocated while the allocator reads the values in use again", lost, build(put(a), allocationList(5, port)), ""},
		{"not allocated after the allocator has read the values in use", lost, build(put(a), allocationList(7, port)), "10.0.0.1 belongs"},
		{"a port twice after a change", c, build(put(a), put(b), put(twice)), "revision 3 assigns 30001"},
		{"allocated", c, build(put(a), allocationList(5, ip, port)), ""},
		{"not allocated", c, build(put(a), allocationList(5, port)), "10.0.0.1 belongs to the service with the UID a"},
		{"at hand, and not settled yet", c, build(put(a), func(s *historyBuilder) {
			s.AllocationLists = append(s.AllocationLists, history.AllocationList{
				Began: second(5), Ended: second(5.1), Allocations: []history.Allocation{port}, AtHand: []string{"10.0.0.1"},
			})
		}), ""},
		{"not allocated yet", c, build(put(a), allocationList(0.95)), ""},
		{"allocated after the deletion of its service", c, build(put(a), del(a), allocationList(5, ip), allocationList(11, ip)), ""},
		{"leaked after the deletion of its service", c, build(put(a), del(a), allocationList(5, ip), allocationList(13, ip)), "10.0.0.1 has been allocated to the UID a for 11s"},
		{"allocated for longer because of a fault", c, build(put(a), del(a), fault(3, 6), allocationList(5, ip), allocationList(13, ip)), ""},
		{"allocated for a write without an answer", c, build(allocationList(5, ip), allocationList(14, ip)), ""},
		{"leaked by a write without an answer", c, build(allocationList(5, ip), allocationList(16, ip)), "10.0.0.1 has been allocated to the UID a for 11s"},
		{"allocated twice for a short time", c, build(allocationList(5, ip), allocationList(8), allocationList(16, ip)), ""},
	})
}

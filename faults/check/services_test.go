package check

import (
	"net/netip"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// web is a service with an address and a node port.
func web(name, ip string, nodePort int32) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "ns", Name: name, Uid: name},
		Spec: &corev1.ServiceSpec{
			ClusterIp: ip, ClusterIps: []string{ip}, Selector: map[string]string{"app": name},
			Ports: []*corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP, NodePort: nodePort}},
		},
	}
}

// behindWeb is a slice of the service web with these ready addresses, as the endpoint controller
// makes it.
func behindWeb(addresses ...string) *corev1.EndpointSlice {
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

func asked(name string, began float64, rcode string, records ...string) func(*story) {
	return func(s *story) {
		s.Answers = append(s.Answers, history.Answer{
			Server: "dns", Name: name, Type: "A", Began: second(began), Ended: second(began + 0.1), Rcode: rcode, Records: records,
		})
	}
}

func disturbed(from, to float64) func(*story) {
	return func(s *story) {
		s.Disturbances = append(s.Disturbances, history.Disturbance{What: "cut", Began: second(from), Ended: second(to)})
	}
}

func TestNames(t *testing.T) {
	const name = "web.ns.svc.cluster.local."
	headless := web("web", "None", 0)
	// The address is 10.0.0.1 from second 1 on, 10.0.0.2 from second 10, and gone from second 20.
	log := func(s *story) {
		put(web("web", "10.0.0.1", 0))(s)
		s.last = 9
		put(web("web", "10.0.0.2", 0))(s)
		s.last = 19
		del(web("web", "10.0.0.2", 0))(s)
	}
	c := Names{Lag: time.Second}
	demand(t, []verdict{
		{"present", c, tell(log, asked(name, 5, "NOERROR", "10.0.0.1")), ""},
		{"not yet", c, tell(log, asked(name, 1.5, "NXDOMAIN")), ""},
		{"not yet, for too long", c, tell(log, asked(name, 3, "NXDOMAIN")), `answered "NXDOMAIN "`},
		{"old", c, tell(log, asked(name, 10.9, "NOERROR", "10.0.0.1")), ""},
		{"too old", c, tell(log, asked(name, 12, "NOERROR", "10.0.0.1")), `answered "NOERROR 10.0.0.1"`},
		{"old under a disturbance", c, tell(log, disturbed(9, 13), asked(name, 14, "NOERROR", "10.0.0.1")), ""},
		{"too old after a disturbance", c, tell(log, disturbed(9, 13), asked(name, 18, "NOERROR", "10.0.0.1")), "answered"},
		{"of the future", c, tell(log, asked(name, 5, "NOERROR", "10.0.0.2")), "answered"},
		{"of nobody", c, tell(log, asked(name, 5, "NOERROR", "10.9.9.9")), "answered"},
		{"empty", c, tell(log, asked(name, 5, "NOERROR")), `answered "NOERROR "`},
		{"gone", c, tell(log, asked(name, 30, "NXDOMAIN")), ""},
		{"a failure", c, tell(log, asked(name, 5, "SERVFAIL")), ""},
		{"no answer", c, tell(log, asked(name, 5, "")), ""},
		{"headless", c, tell(put(headless), put(behindWeb("10.1.0.1", "10.1.0.2")), asked(name, 5, "NOERROR", "10.1.0.1", "10.1.0.2")), ""},
		{"headless, half of it", c, tell(put(headless), put(behindWeb("10.1.0.1", "10.1.0.2")), asked(name, 5, "NOERROR", "10.1.0.1")), "answered"},
		{"headless without endpoints", c, tell(put(headless), put(behindWeb()), asked(name, 5, "NXDOMAIN")), ""},
	})
}

var (
	webAt   = netip.MustParseAddrPort("10.0.0.1:80")
	nodeAt  = netip.MustParseAddrPort("192.0.2.1:30001")
	backend = netip.MustParseAddrPort("10.1.0.1:8080")
	other   = netip.MustParseAddrPort("10.1.0.9:8080")
)

func lost(began, at float64, backend netip.AddrPort) func(*story) {
	return func(s *story) {
		s.Connections = append(s.Connections, history.Connection{
			Client: "keeper", Target: webAt, Backend: backend, Began: second(began), Lost: second(at), Error: "reset",
		})
	}
}

func attempt(began float64, backend netip.AddrPort) func(*story) {
	return attemptAt(webAt, began, backend)
}

func attemptAt(target netip.AddrPort, began float64, backend netip.AddrPort) func(*story) {
	return func(s *story) {
		s.Attempts = append(s.Attempts, history.Attempt{Client: "prober", Target: target, Backend: backend, Began: second(began), Ended: second(began + 0.1)})
	}
}

func TestConnections(t *testing.T) {
	// The backend is there from second 2 on, and goes at second 10.
	log := func(s *story) {
		put(web("web", "10.0.0.1", 0))(s)
		put(behindWeb("10.1.0.1", "10.1.0.2"))(s)
		s.last = 9
		put(behindWeb("10.1.0.2"))(s)
	}
	c := Connections{Lag: time.Second}
	demand(t, []verdict{
		{"kept", c, tell(log, func(s *story) {
			s.Connections = append(s.Connections, history.Connection{Target: webAt, Backend: backend, Began: second(3)})
		}), ""},
		{"lost with its backend", c, tell(log, lost(3, 12, backend)), ""},
		{"lost without a reason", c, tell(log, lost(3, 9, backend)), "though its backend 10.1.0.1:8080 was there all the time: reset"},
		{"lost with an excuse", Connections{Excused: func(history.Connection) bool { return true }}, tell(log, lost(3, 9, backend)), ""},
		{"lost when another backend went", c, tell(log, lost(3, 12, netip.MustParseAddrPort("10.1.0.2:8080"))), "was there all the time"},
		{"lost with its service", c, tell(log, del(web("web", "10.0.0.1", 0)), lost(3, 12, netip.MustParseAddrPort("10.1.0.2:8080"))), ""},
		{"answered", c, tell(log, attempt(5, backend)), ""},
		{"answered by one that just went", c, tell(log, attempt(10.5, backend)), ""},
		{"answered by one that went long ago", c, tell(log, attempt(15, backend)), "10.1.0.1:8080 by 10.0.0.1:80, which is no backend of it"},
		{"answered at a node port", c, tell(put(web("web", "10.0.0.1", 30001)), put(behindWeb("10.1.0.1")), attemptAt(nodeAt, 5, backend)), ""},
		{"answered by a stranger at a node port", c, tell(put(web("web", "10.0.0.1", 30001)), put(behindWeb("10.1.0.1")), attemptAt(nodeAt, 5, other)),
			"10.1.0.9:8080 by 192.0.2.1:30001, which is no backend of it"},
		{"answered by a stranger", c, tell(log, attempt(5, other)), "which is no backend of it"},
	})
}

func holds(began float64, held ...history.Held) func(*story) {
	return func(s *story) {
		s.Holdings = append(s.Holdings, history.Holdings{Began: second(began), Ended: second(began + 0.1), Held: held})
	}
}

func TestAllocations(t *testing.T) {
	a, b := web("a", "10.0.0.1", 30001), web("b", "10.0.0.2", 30002)
	ip, port := history.Held{Value: "10.0.0.1", UID: "a"}, history.Held{Value: "30001", UID: "a"}
	moved := object.Clone(a)
	moved.Metadata.Name, moved.Metadata.Uid = "c", "c"
	twice := object.Clone(b)
	twice.Spec.Ports[0].NodePort = 30001
	c := Allocations{Grace: 10 * time.Second}
	demand(t, []verdict{
		{"each its own", c, tell(put(a), put(b), del(b)), ""},
		{"handed over", c, tell(put(a), del(a), put(moved)), ""},
		{"an address twice", c, tell(put(a), put(moved)), "revision 2 gives it 10.0.0.1, which Service ns/a has"},
		{"a port twice", c, tell(put(a), put(twice)), "revision 2 gives it 30001, which Service ns/a has"},
		{"a port twice after a change", c, tell(put(a), put(b), put(twice)), "revision 3 gives it 30001"},
		{"held", c, tell(put(a), holds(5, ip, port)), ""},
		{"taken away", c, tell(put(a), holds(5, port)), "10.0.0.1 belongs to the service with the UID a"},
		{"not held yet", c, tell(put(a), holds(0.95)), ""},
		{"held after its service", c, tell(put(a), del(a), holds(5, ip), holds(11, ip)), ""},
		{"leaked after its service", c, tell(put(a), del(a), holds(5, ip), holds(13, ip)), "10.0.0.1 has been held for the UID a for 11s"},
		{"leaked, but disturbed", c, tell(put(a), del(a), disturbed(3, 6), holds(5, ip), holds(13, ip)), ""},
		{"held for a write without an answer", c, tell(holds(5, ip), holds(14, ip)), ""},
		{"leaked by a write without an answer", c, tell(holds(5, ip), holds(16, ip)), "10.0.0.1 has been held for the UID a for 11s"},
		{"held twice for a while", c, tell(holds(5, ip), holds(8), holds(16, ip)), ""},
	})
}

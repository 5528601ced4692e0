package announce

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	edgebalancer "portolan.dev/services/balancer"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// edges is a LAN with edges on two of its three nodes.
type edges struct {
	*lan
	running map[string]*labtest.Process // by node
}

// TestEdges serves the addresses of a service by edges. It checks that a node announces an address only
// while its edge serves the address, and checks the connections when the agent, the node or the edge is
// stopped or killed.
func TestEdges(t *testing.T) {
	for _, mode := range kernelModes(t) {
		t.Run(mode, func(t *testing.T) {
			l := &edges{running: map[string]*labtest.Process{}, lan: build(t, mode, map[string][]string{
				"nodeagent": {"-lbctl", lbctlAt}, "allocator": {"-load-balancer-pool", "192.168.77.48/28,fd77::/120"},
			})}
			l.startLBCtl(t, &replica{at: lbctlAt, health: "172.31.0.1:7506"})
			l.makeServiceOfEdges(t)
			l.noEdge(t)
			l.startEdge(t, l.Nodes[0])
			l.startEdge(t, l.Nodes[1])
			l.ask(t)
			for _, addr := range balanced {
				owner, _ := l.announcer(t, addr, "")
				l.answered(t, addr, owner, 0)
				if got := l.claimants(addr, 0); !slices.Equal(got, []string{owner}) {
					t.Errorf("%s is claimed by %v, and its owner is %s", addr, got, owner)
				}
				l.reaches(t, addr, owner)
			}
			l.keepsWithoutItsAgent(t, balanced[0])
			for _, addr := range balanced {
				l.movesWithItsNode(t, addr)
				l.movesWithItsEdge(t, addr)
			}
			l.dies(t, balanced[0])
			for _, one := range l.running {
				one.Kill()
			}
			l.noEdge(t)
			l.forgets(t)
			if got := l.claimants(balanced[0], 0); slices.Contains(got, l.Nodes[2].Name) {
				t.Errorf("%s is claimed by %v, and %s has no edge", balanced[0], got, l.Nodes[2].Name)
			}
		})
	}
}

// makeServiceOfEdges makes a service with addresses of both families that edges serve.
func (l *edges) makeServiceOfEdges(t *testing.T) {
	t.Helper()
	l.apply(t, &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{
			object.AnnotationBalancerIPs: balanced[0].String() + "," + balanced[1].String(), edgebalancer.Prefix + "proxy-protocol": "v2",
		}},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, LoadBalancerClass: proto.String(edgebalancer.ClassEdge),
			IpFamilyPolicy: corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK, ExternalTrafficPolicy: corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL,
			Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		},
	})
	l.serveGreeter(t)
}

// startEdge starts an edge on a node that has none.
func (l *edges) startEdge(t *testing.T, node *labtest.Node) {
	t.Helper()
	at := func(port uint16) string { return netip.AddrPortFrom(node.Addresses[0], port).String() }
	l.running[node.Name] = labtest.Start(l.TB, "edge on "+node.Name, "edge", node.Namespace, []string{
		"-addr", at(7407), "-http-addr", at(7507), "-log-format", "json", "-nats-url", l.NATS(), "-insecure",
		"-registry", l.RegistryAt().String(), "-agent", at(7404), "-node-name", node.Name, "-stop-timeout", "30s",
	})
	l.serves(t, node)
}

// serves waits until the agent of a node says that its edge serves the addresses.
func (l *edges) serves(t *testing.T, node *labtest.Node) {
	t.Helper()
	kittest.Eventually(t, "the edge on "+node.Name, func() error {
		status, err := node.Agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		addrs := status.GetProxy().GetAddresses()
		if len(addrs) != len(balanced) || slices.ContainsFunc(addrs, func(a *nodeagentv1.ProxiedAddress) bool { return !a.GetServed() }) {
			return fmt.Errorf("%v", status.GetProxy())
		}
		return nil
	})
}

// noEdge waits until the condition of the service says that no edge serves its addresses, and names the
// remedy.
func (l *edges) noEdge(t *testing.T) {
	t.Helper()
	kittest.Eventually(t, "the condition of the service", func() error {
		res, err := registryv1.NewServiceServiceClient(l.Conn).GetService(t.Context(), &registryv1.GetServiceRequest{Namespace: "default", Name: "web"})
		if err != nil {
			return err
		}
		c := object.Condition(res.GetService().GetStatus().GetConditions(), object.ConditionAnnounced)
		if c.GetStatus() != corev1.ConditionStatus_CONDITION_STATUS_FALSE || c.GetReason() != "NoEdge" || !strings.Contains(c.GetMessage(), "run edge on a node") {
			return fmt.Errorf("%v", c)
		}
		return nil
	})
}

// reaches waits until new connections of the client to an address reach the edge on a node, which sees
// the client's address.
func (l *edges) reaches(t *testing.T, addr netip.Addr, node string) {
	t.Helper()
	client := clientAt
	if addr.Is6() {
		client = "fd77::64"
	}
	kittest.Eventually(t, "the edge on "+node, func() error { return l.hears(addr, 80, node+" "+client) })
}

// another waits until another node than the given one announces an address, and returns its name.
func (l *edges) another(t *testing.T, addr netip.Addr, not string) string {
	t.Helper()
	var next string
	kittest.Eventually(t, "the next node", func() error {
		if next, _ = l.announcer(t, addr, ""); next == not {
			return errors.New("it is still " + not)
		}
		return nil
	})
	return next
}

// keepsWithoutItsAgent kills the agent of an owner. Its edge goes on serving, and the restarted agent
// announces again.
func (l *edges) keepsWithoutItsAgent(t *testing.T, addr netip.Addr) {
	before := len(l.capture.all())
	name, _ := l.announcer(t, addr, "")
	node := l.node(name)
	open := l.steady(t, addr)
	for _, end := range []func(){node.Process.Kill, node.Process.Stop} {
		end()
		for range ticks(t, longerThanAFailOver) {
			if err := l.hears(addr, 80, name+" "); err != nil {
				t.Fatalf("a new connection without the agent of %s: %v", name, err)
			}
		}
		ended := len(l.capture.all())
		l.StartAgent(node)
		l.answered(t, addr, name, ended)
		l.serves(t, node)
		open.goesOn(t, "after a restart of the agent")
	}
	open.stop()
	if got := l.claimants(addr, before); !slices.Equal(got, []string{name}) {
		t.Errorf("%s is claimed by %v, and its owner is %s", addr, got, name)
	}
	awaitReady(t, node)
}

// movesWithItsNode drains the owner's node. Connections through its edge go on.
func (l *edges) movesWithItsNode(t *testing.T, addr netip.Addr) {
	name, _ := l.announcer(t, addr, "")
	l.reaches(t, addr, name)
	before := len(l.capture.all())
	early := l.steady(t, addr)
	early.goesThroughEdge(t, name)
	l.drain(t, l.node(name), true)
	next := l.another(t, addr, name)
	l.reaches(t, addr, next)
	early.goesOn(t, "after the drain of the node")
	early.stop()
	l.drain(t, l.node(name), false)
	l.claimedBy(t, addr, before, l.node(name), l.node(next))
}

// movesWithItsEdge tells the owner's edge to stop, as a supervisor does. The next node hands its open
// connections over to it, and the edge ends when these have ended.
func (l *edges) movesWithItsEdge(t *testing.T, addr netip.Addr) {
	name, _ := l.announcer(t, addr, "")
	l.reaches(t, addr, name)
	before := len(l.capture.all())
	early := l.steady(t, addr)
	early.goesThroughEdge(t, name)
	leaving := l.running[name]
	begun := time.Now()
	if err := syscall.Kill(leaving.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	next := l.another(t, addr, name)
	l.reaches(t, addr, next)
	t.Logf("edge_drains_to_connection_seconds: %.3f", time.Since(begun).Seconds())
	early.goesOn(t, "while the edge drains")
	if got := l.previous(t, l.node(next), addr); got != name {
		t.Errorf("%s: the previous node is %q, want %s", next, got, name)
	}
	early.stop()
	<-leaving.Ended()
	kittest.Eventually(t, "the end of the hand-over", func() error {
		if got := l.previous(t, l.node(next), addr); got != "" {
			return fmt.Errorf("the previous node is still %s, whose edge has ended", got)
		}
		return nil
	})
	l.claimedBy(t, addr, before, l.node(name), l.node(next))
	l.startEdge(t, l.node(name))
}

// dies kills the edges of owners. The other node's edge takes over.
func (l *edges) dies(t *testing.T, addr netip.Addr) {
	var answers, times []time.Duration
	for range deaths {
		name, _ := l.announcer(t, addr, "")
		l.reaches(t, addr, name)
		before := len(l.capture.all())
		died := time.Now()
		l.running[name].Kill()
		next := l.Nodes[0].Name
		if next == name {
			next = l.Nodes[1].Name
		}
		l.reaches(t, addr, next)
		times = append(times, time.Since(died))
		answers = append(answers, l.answered(t, addr, next, before).at.Sub(died))
		l.claimedBy(t, addr, before, l.node(name), l.node(next))
		l.startEdge(t, l.node(name))
	}
	for _, one := range []struct {
		name  string
		times []time.Duration
	}{{"edge_killed_to_first_answer_seconds", answers}, {"edge_killed_to_connection_seconds", times}} {
		slices.Sort(one.times)
		t.Logf("%s: median %.3f, longest %.3f of %d", one.name, one.times[deaths/2].Seconds(), one.times[deaths-1].Seconds(), deaths)
	}
}

// forgets waits until the agents have removed the addresses of edges that have gone.
func (l *edges) forgets(t *testing.T) {
	t.Helper()
	for _, node := range l.Nodes {
		kittest.Eventually(t, "the end of the addresses on "+node.Name, func() error {
			status, err := node.Agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
			if err == nil && status.GetProxy() != nil {
				err = fmt.Errorf("%v", status.GetProxy())
			}
			return err
		})
	}
}

// goesThroughEdge fails unless the connection goes through the edge on a node.
func (c *traffic) goesThroughEdge(t *testing.T, node string) {
	t.Helper()
	if !strings.HasPrefix(c.greeting, node+" ") {
		t.Errorf("the connection to %s is greeted with %q, want the edge on %s", c.addr, c.greeting, node)
	}
}

package announce

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/arp"
	"github.com/mdlayher/ndp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	registryv1 "portolan.dev/api/registry/v1"

	lbannounce "portolan.dev/lbctl/announce"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

// lbctlAt is the address of the test's own lbctl, on the hub.
const lbctlAt = "172.31.0.1:7406"

// The addresses of a service on the LAN, and two neighbouring addresses that no machine has.
var (
	balanced = [2]netip.Addr{netip.MustParseAddr("192.168.77.50"), netip.MustParseAddr("fd77::50")}
	nobodys  = [2]netip.Addr{netip.MustParseAddr("192.168.77.51"), netip.MustParseAddr("fd77::51")}
)

// lan is an installation with its nodes on one LAN.
type lan struct {
	*labtest.Installation
	server  *lbannounce.Server
	resign  func() // ends the term of the leader
	bridge  *topology.Namespace
	client  *topology.Namespace
	capture *capture
}

// install starts a LAN, the announcing side of lbctl, and a service with a load-balancer address of
// each family. A right to announce is valid for the time validity.
func install(t *testing.T, mode string, validity time.Duration) *lan {
	t.Helper()
	l := build(t, mode, map[string][]string{"nodeagent": {"-lbctl", lbctlAt}})
	l.serve(t, validity)
	l.server.SetWanted([]lbannounce.Wanted{l.wanted(balanced[0]), l.wanted(balanced[1])})
	l.makeService(nil)
	l.giveAddresses()
	return l
}

// build starts three nodes and a client on a bridge, and a backend behind the nodes. flags are flags of
// the daemons.
func build(t *testing.T, mode string, flags map[string][]string) *lan {
	t.Helper()
	names := []string{"node-a", "node-b", "node-c"}
	flags["nodeagent"] = append(flags["nodeagent"], "-announce-interfaces", "la*")
	options := labtest.Options{Flags: flags}
	for _, name := range names {
		options.Nodes = append(options.Nodes, labtest.NodeOptions{Name: name, Zone: "z", ProxyMode: mode})
	}
	l := &lan{Installation: labtest.Install(t, options), bridge: topology.New(t, "lan"), client: topology.New(t, "client")}
	on := func(host int) []netip.Prefix {
		return []netip.Prefix{
			netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 77, byte(host)}), 24),
			netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x77, 15: byte(host)}), 64),
		}
	}
	for n, node := range l.Nodes {
		topology.Connect(t, l.bridge, node.Namespace, nil, on(n+1))
	}
	topology.Connect(t, l.bridge, l.client, nil, on(100))
	l.bridge.Bridge(t, "br")
	l.capture = start(t, l.bridge, names)
	l.ServeBackends([]int32{8080})
	return l
}

// kernelModes returns the modes of the kernel that this machine has.
func kernelModes(t *testing.T) []string {
	t.Helper()
	labtest.Need(t)
	modes := slices.DeleteFunc(labtest.Modes(), func(mode string) bool { return mode == "userspace" })
	if len(modes) == 0 {
		t.Skip("allowed: the kernel has no plane, and without one no node can forward an address that it lacks")
	}
	return modes
}

// serve serves the agents as lbctl does.
func (l *lan) serve(t *testing.T, validity time.Duration) {
	t.Helper()
	log := kittest.Logger(t)
	l.server = lbannounce.NewServer(lbannounce.ServerOptions{
		// The restart is longer than the default, so that a slow machine is no failure.
		Options: lbannounce.Options{Validity: validity, Restart: time.Minute}, Log: log, Metrics: prometheus.NewRegistry(),
	})
	srv := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: prometheus.NewRegistry(), Health: health.New(log)})
	loadbalancerv1.RegisterAnnouncerServiceServer(srv, l.server)
	lis, err := rpc.TCP().Listen(lbctlAt)
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "lbctl", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	l.lead(t)
}

// lead begins a term, and ends the term before it.
func (l *lan) lead(t *testing.T) {
	t.Helper()
	if l.resign != nil {
		l.resign()
	}
	l.resign = kittest.Run(l.TB, "leader", func(ctx context.Context) error { l.server.Lead(ctx); return nil })
}

func (l *lan) wanted(addr netip.Addr) lbannounce.Wanted {
	w := lbannounce.Wanted{Address: addr, Services: []object.Name{{Namespace: "default", Name: "web"}}, Nodes: map[string]bool{}}
	for _, n := range l.Nodes {
		w.Nodes[n.Name] = true
	}
	return w
}

// makeService makes a service for addresses of both families, with one backend.
func (l *lan) makeService(annotations map[string]string) {
	l.Helper()
	port := int32(8080)
	for _, o := range []object.Object{
		&corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web", Annotations: annotations}, Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, IpFamilyPolicy: corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK,
			Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		}},
		slice("web-4", corev1.AddressType_ADDRESS_TYPE_IPV4, "10.244.200.5", &port),
		slice("web-6", corev1.AddressType_ADDRESS_TYPE_IPV6, "fd00:244:0:200::5", &port),
	} {
		if _, err := l.Registry.Apply(l.Context(), o, false); err != nil {
			l.Fatalf("apply %s: %v", object.KeyOf(o), err)
		}
	}
}

// giveAddresses gives the service its addresses, as lbctl does.
func (l *lan) giveAddresses() {
	l.Helper()
	status := &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"}, Status: &corev1.ServiceStatus{
		LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: balanced[0].String()}, {Ip: balanced[1].String()}}},
	}}
	if _, err := registryv1.NewServiceServiceClient(l.Conn).UpdateServiceStatus(l.Context(), &registryv1.UpdateServiceStatusRequest{Service: status}); err != nil {
		l.Fatal(err)
	}
}

func slice(name string, family corev1.AddressType, address string, port *int32) *corev1.EndpointSlice {
	return &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{object.LabelServiceName: "web"}},
		AddressType: family, Ports: []*corev1.EndpointPort{{Port: port, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		Endpoints: []*corev1.Endpoint{{Addresses: []string{address}}},
	}
}

// ask makes the client ask for the addresses many times a second, until the test ends.
func (l *lan) ask(t *testing.T) {
	t.Helper()
	var requests *arp.Client
	var solicitations *ndp.Conn
	kittest.Eventually(t, "the client's device", func() error {
		return l.client.Do(func() error {
			device, err := net.InterfaceByName("lan")
			if err != nil {
				return err
			}
			if requests, err = arp.Dial(device); err != nil {
				return err
			}
			solicitations, _, err = ndp.Listen(device, ndp.LinkLocal)
			return err
		})
	})
	kittest.Run(t, "requests", func(ctx context.Context) error {
		defer requests.Close()
		defer solicitations.Close()
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			for _, addr := range []netip.Addr{balanced[0], nobodys[0]} {
				if err := requests.Request(addr); err != nil {
					return err
				}
			}
			for _, addr := range []netip.Addr{balanced[1], nobodys[1]} {
				group, err := ndp.SolicitedNodeMulticast(addr)
				if err != nil {
					return err
				}
				if err := solicitations.WriteTo(&ndp.NeighborSolicitation{TargetAddress: addr}, nil, group); err != nil {
					return err
				}
			}
		}
	})
}

// owner waits until one of the nodes announces an address, and returns its name.
func (l *lan) owner(t *testing.T, addr netip.Addr, not string) string {
	t.Helper()
	var node string
	kittest.Eventually(t, "a node that announces "+addr.String(), func() error {
		all, _ := l.server.Statuses()
		for _, s := range all {
			if s.Address == addr && s.Reason == lbannounce.Announced && s.Node != not {
				node = s.Node
				return nil
			}
		}
		return fmt.Errorf("%+v", all)
	})
	return node
}

func (l *lan) node(name string) *labtest.Node {
	return l.Nodes[slices.IndexFunc(l.Nodes, func(n *labtest.Node) bool { return n.Name == name })]
}

// answered waits for an answer of a node for an address, among the claims after the first ones.
func (l *lan) answered(t *testing.T, addr netip.Addr, node string, after int) claim {
	t.Helper()
	var found claim
	kittest.Eventually(t, node+" to answer for "+addr.String(), func() error {
		for _, c := range l.capture.all()[after:] {
			if c.address == addr && c.answer && c.node == node {
				found = c
				return nil
			}
		}
		return fmt.Errorf("no such answer among %d claims", len(l.capture.all())-after)
	})
	return found
}

// checkOrder fails if a node has claimed an address after its successor. It leaves out the first claims, of
// the number after.
func (l *lan) checkOrder(t *testing.T, after int) {
	t.Helper()
	for _, addr := range balanced {
		current, gone := "", map[string]bool{}
		for _, c := range l.capture.all()[after:] {
			if c.address != addr || c.node == current {
				continue
			}
			if gone[c.node] {
				t.Errorf("%s: %s has claimed it at %s, after %s has", addr, c.node, c.at.Format(time.StampMilli), current)
			}
			gone[current], current = true, c.node
		}
	}
}

// reach connects from the client to an address of the service.
func (l *lan) reach(addr netip.Addr) error {
	line, err := l.hear(addr, 80, 300*time.Millisecond)
	if err == nil && !strings.HasSuffix(line, ":8080") {
		err = fmt.Errorf("the backend was reached at %q", line)
	}
	return err
}

// hear connects from the client to an address, within a time, and returns the first line that the
// backend sends.
func (l *lan) hear(addr netip.Addr, port uint16, timeout time.Duration) (line string, err error) {
	err = l.client.Do(func() error {
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(addr, port).String(), timeout)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		line, err = bufio.NewReader(conn).ReadString('\n')
		return err
	})
	return strings.TrimSpace(line), err
}

// connection is an open connection to the service.
type connection struct {
	net.Conn
	lines    *bufio.Reader
	greeting string // the first line that the backend sent
}

// dial opens a connection from the client to an address of the service, until the test ends.
func (l *lan) dial(t *testing.T, addr netip.Addr) *connection {
	t.Helper()
	c := &connection{}
	kittest.Eventually(t, "a connection to "+addr.String(), func() error {
		return l.client.Do(func() (err error) {
			c.Conn, err = net.DialTimeout("tcp", netip.AddrPortFrom(addr, 80).String(), time.Second)
			return err
		})
	})
	t.Cleanup(func() { _ = c.Close() })
	c.lines = bufio.NewReader(c)
	var err error
	if c.greeting, err = c.lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return c
}

// echo sends a line and waits until it comes back.
func (c *connection) echo() error {
	if err := c.SetDeadline(time.Now().Add(echoTimeout)); err != nil {
		return err
	}
	const sent = "still there\n"
	if _, err := c.Write([]byte(sent)); err != nil {
		return err
	}
	if line, err := c.lines.ReadString('\n'); err != nil || line != sent {
		return fmt.Errorf("%q came back, %w", line, err)
	}
	return nil
}

// echoTimeout has room for retransmissions.
const echoTimeout = 30 * time.Second

// die ends a node: nothing leaves it any more, and then its agent is killed.
func (l *lan) die(t *testing.T, node *labtest.Node) {
	t.Helper()
	l.bridge.Down(t, node.Name)
	l.cut(t, node, true)
	node.Process.Kill()
}

// revive starts a node that has died.
func (l *lan) revive(t *testing.T, node *labtest.Node) {
	t.Helper()
	l.bridge.Link(t, node.Name, nil)
	l.cut(t, node, false)
	l.StartAgent(node)
	awaitReady(t, node)
}

// cut keeps a node from sending to the control plane, or ends that.
func (l *lan) cut(t *testing.T, node *labtest.Node, cut bool) {
	t.Helper()
	control := netip.MustParseAddrPort(lbctlAt).Addr()
	route := &netlink.Route{Dst: &net.IPNet{IP: control.AsSlice(), Mask: net.CIDRMask(32, 32)}, Type: unix.RTN_BLACKHOLE}
	err := node.Namespace.Do(func() error {
		if cut {
			return netlink.RouteAdd(route)
		}
		return netlink.RouteDel(route)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitReady waits until an agent is ready.
func awaitReady(t *testing.T, node *labtest.Node) {
	t.Helper()
	client := labtest.HTTPIn(node.Namespace)
	kittest.Eventually(t, node.Name, func() error {
		return labtest.Ready(client, fmt.Sprintf("http://%s:7504", node.Addresses[0]))
	})
}

// claimants returns the nodes that have claimed an address. It leaves out the first claims, of the number
// after.
func (l *lan) claimants(addr netip.Addr, after int) []string {
	nodes := map[string]bool{}
	for _, c := range l.capture.all()[after:] {
		if c.address == addr {
			nodes[c.node] = true
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}

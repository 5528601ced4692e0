package bgp

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// balanced are the addresses of the service.
var balanced = [2]netip.Addr{netip.MustParseAddr("203.0.113.10"), netip.MustParseAddr("fd00:203::10")}

// outside is the network of the client behind the router.
var outside = [2]netip.Prefix{netip.MustParsePrefix("10.88.0.0/24"), netip.MustParsePrefix("fd88:1::/64")}

const (
	podPort = 8080
	// connectTimeout is far longer than a connection takes.
	connectTimeout = 10 * time.Second
)

// world is an installation with its nodes and a router on one network.
type world struct {
	*labtest.Installation
	router *router
	client *topology.Namespace
	flags  map[string][]string // of the agents that are started from now on
}

// install starts nodes with a pod each, the router, a client behind it, and a service without endpoints.
// The agents get flags in addition to their peers. perPeer is added to the router's configuration of each
// session.
func install(t *testing.T, nodes int, perPeer string, flags ...string) *world {
	t.Helper()
	labtest.Need(t)
	find(t, "bird")
	mode := labtest.Modes()[0]
	if mode == "userspace" {
		t.Skip("allowed: the kernel has no plane, and without one no node can forward an address that it lacks")
	}
	peers := fmt.Sprintf("%s@%d,%s@%d", onLAN(100)[0].Addr(), routersAS, onLAN(100)[1].Addr(), routersAS)
	options := labtest.Options{Flags: map[string][]string{
		"nodeagent": append([]string{"-bgp-as", fmt.Sprint(nodesAS), "-bgp-peers", peers, "-bgp-communities", "64512:100,64512:1:2"}, flags...),
	}}
	for n := range nodes {
		options.Nodes = append(options.Nodes, labtest.NodeOptions{Name: fmt.Sprintf("node-%d", n+1), Zone: "z", ProxyMode: mode})
	}
	w := &world{Installation: labtest.Install(t, options), flags: options.Flags}
	w.connect(t)
	w.router = startRouter(t, w.router.in, nodes, perPeer)
	w.makeService()
	return w
}

// connect connects the nodes, the router and the client, and each node with its pod.
func (w *world) connect(t *testing.T) {
	t.Helper()
	lan, in := topology.New(t, "lan"), topology.New(t, "router")
	w.router, w.client = &router{in: in}, topology.New(t, "client")
	for n, node := range w.Nodes {
		addrs := onLAN(n + 1)
		topology.Connect(t, lan, node.Namespace, nil, addrs[:])
		pod := topology.New(t, fmt.Sprintf("pod-%d", n+1))
		labtest.Plug(t, node.Namespace, pod, fmt.Sprintf("pod-%d", n+1), podAddresses(node))
		serve(t, pod)
	}
	addrs := onLAN(100)
	topology.Connect(t, lan, in, nil, addrs[:])
	lan.Bridge(t, "br")
	var near, far []netip.Prefix
	for _, p := range outside {
		near = append(near, netip.PrefixFrom(p.Addr().Next(), p.Bits()))
		far = append(far, netip.PrefixFrom(p.Addr().Next().Next(), p.Bits()))
	}
	topology.Connect(t, in, w.client, near, far)
	for family, all := range [2]string{"0.0.0.0/0", "::/0"} {
		w.client.Route(t, netip.MustParsePrefix(all), near[family].Addr())
		for _, node := range w.Nodes {
			node.Namespace.Route(t, outside[family], addrs[family].Addr())
		}
	}
	in.Sysctl(t, "net.ipv4.ip_forward", "1")
	in.Sysctl(t, "net.ipv6.conf.all.forwarding", "1")
	in.Sysctl(t, "net.ipv4.fib_multipath_hash_policy", "1") // also by ports: the client has one address
	in.Sysctl(t, "net.ipv6.fib_multipath_hash_policy", "1")
}

// serve serves the port of a pod until the test ends.
func serve(t *testing.T, pod *topology.Namespace) {
	t.Helper()
	var lis net.Listener
	err := pod.Do(func() (err error) {
		lis, err = net.Listen("tcp", fmt.Sprintf("[::]:%d", podPort))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	go labtest.Echo(lis)
}

// podAddresses returns the addresses of a node's pod.
func podAddresses(node *labtest.Node) (addrs [2]netip.Addr) {
	for family, p := range node.PodRanges {
		addrs[family] = p.Addr().Next().Next()
	}
	return addrs
}

func (w *world) makeService() {
	w.Helper()
	w.apply(&corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: &corev1.ServiceSpec{
		Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, IpFamilyPolicy: corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK,
		Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}},
	}})
	status := &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"}, Status: &corev1.ServiceStatus{
		LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: balanced[0].String()}, {Ip: balanced[1].String()}}},
	}}
	if _, err := registryv1.NewServiceServiceClient(w.Conn).UpdateServiceStatus(w.Context(), &registryv1.UpdateServiceStatusRequest{Service: status}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) apply(o object.Object) {
	w.Helper()
	if _, err := w.Registry.Apply(w.Context(), o, false); err != nil {
		w.Fatalf("apply %s: %v", object.KeyOf(o), err)
	}
}

// policy sets the external traffic policy of the service.
func (w *world) policy(p corev1.TrafficPolicy) {
	w.Helper()
	w.apply(&corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: &corev1.ServiceSpec{
		Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, IpFamilyPolicy: corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK,
		Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}}, ExternalTrafficPolicy: p,
	}})
}

// scale makes the pods of these nodes the endpoints of the service.
func (w *world) scale(nodes ...int) {
	w.Helper()
	for family, kind := range [2]corev1.AddressType{corev1.AddressType_ADDRESS_TYPE_IPV4, corev1.AddressType_ADDRESS_TYPE_IPV6} {
		port := int32(podPort)
		slice := &corev1.EndpointSlice{
			Metadata:    &corev1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%d", family), Labels: map[string]string{object.LabelServiceName: "web"}},
			AddressType: kind, Ports: []*corev1.EndpointPort{{Port: &port, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		}
		for _, n := range nodes {
			node := w.Nodes[n-1]
			slice.Endpoints = append(slice.Endpoints, &corev1.Endpoint{Addresses: []string{podAddresses(node)[family].String()}, NodeName: &node.Name})
		}
		w.apply(slice)
	}
}

// await waits until the router forwards both addresses through exactly these nodes.
func (w *world) await(nodes ...int) {
	w.Helper()
	for _, addr := range balanced {
		w.router.await(addr, nodes...)
	}
}

// after does something, waits until the router forwards both addresses through exactly these nodes, and
// prints and returns the time that it took from the beginning.
func (w *world) after(t *testing.T, what string, do func(), nodes ...int) time.Duration {
	t.Helper()
	begun := time.Now()
	do()
	w.await(nodes...)
	took := time.Since(begun)
	t.Logf("%s_to_routes_seconds: %.3f", what, took.Seconds())
	return took
}

// reach connects from the client to an address of the service, and returns the address of the pod.
func (w *world) reach(addr netip.Addr) (pod netip.Addr, err error) {
	err = w.client.Do(func() error {
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(addr, 80).String(), connectTimeout)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(connectTimeout)); err != nil {
			return err
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			return err
		}
		at, err := netip.ParseAddrPort(strings.TrimSpace(line))
		pod = at.Addr()
		return err
	})
	return pod, err
}

// awaitReach waits until the client reaches both addresses.
func (w *world) awaitReach() {
	w.Helper()
	for _, addr := range balanced {
		kittest.Eventually(w, "the service at "+addr.String(), func() error {
			_, err := w.reach(addr)
			return err
		})
	}
}

// drain makes the agent of a node drain, or ends that. The connection to an agent that was restarted
// may need some time.
func (w *world) drain(node *labtest.Node, on bool) {
	w.Helper()
	kittest.Eventually(w, "the agent of "+node.Name, func() error {
		_, err := node.Agent.SetDraining(w.Context(), &nodeagentv1.SetDrainingRequest{Draining: on})
		return err
	})
}

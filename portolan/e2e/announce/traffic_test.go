package announce

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// clientAt is the client's address on the LAN.
const clientAt = "192.168.77.100"

// backendPort is the port of the backends on the nodes.
const backendPort = 8080

// TestTrafficToAnnouncedAddresses sends the client's connections to addresses that lbctl gives to
// services and a node announces. Each node has a backend that answers with the name of its node and the
// address of its client.
func TestTrafficToAnnouncedAddresses(t *testing.T) {
	l := build(t, kernelModes(t)[0], map[string][]string{
		"nodeagent": {"-lbctl", lbctlAt}, "allocator": {"-load-balancer-pool", "192.168.77.48/28"},
	})
	l.startLBCtl(t, &replica{at: lbctlAt, health: "172.31.0.1:7506"})
	for _, node := range l.Nodes {
		l.serveOn(t, node)
	}
	t.Run("external traffic policy Local", l.localTraffic)
	t.Run("source ranges", l.sourceRanges)
	t.Run("shared address", l.sharedAddress)
}

// localTraffic moves the only endpoint of a service with the policy Local from node to node.
func (l *lan) localTraffic(t *testing.T) {
	addr := netip.MustParseAddr("192.168.77.50")
	before := len(l.capture.all())
	l.apply(t, balancer("local", addr, nil, 80, func(spec *corev1.ServiceSpec) {
		spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	}))
	var visited []string
	for _, node := range []*labtest.Node{l.Nodes[1], l.Nodes[0], l.Nodes[2]} {
		l.apply(t, endpointsOn("local", node))
		kittest.Eventually(t, "the client to reach "+node.Name+" as itself", func() error {
			return l.hears(addr, 80, node.Name+" "+clientAt)
		})
		if got, _ := l.announcer(t, addr, ""); got != node.Name {
			t.Errorf("%s is announced by %s, and its endpoint is on %s", addr, got, node.Name)
		}
		visited = append(visited, node.Name)
	}
	l.checkOrder(t, before)
	var claimed []string
	for _, c := range l.capture.all()[before:] {
		if c.address == addr && !slices.Contains(claimed, c.node) {
			claimed = append(claimed, c.node)
		}
	}
	if !slices.Equal(claimed, visited) {
		t.Errorf("%s was claimed by %v, and its endpoint was on %v", addr, claimed, visited)
	}
}

// sourceRanges keeps the client out of a service, and lets it in again.
func (l *lan) sourceRanges(t *testing.T) {
	addr := netip.MustParseAddr("192.168.77.52")
	narrow := func(ranges ...string) *corev1.Service {
		return balancer("narrow", addr, nil, 80, func(spec *corev1.ServiceSpec) { spec.LoadBalancerSourceRanges = ranges })
	}
	l.apply(t, narrow(clientAt+"/32"))
	l.apply(t, endpointsOn("narrow", l.Nodes[0]))
	open := func() error { _, err := l.hear(addr, 80, time.Second); return err }
	kittest.Eventually(t, "the service", open)
	l.apply(t, narrow("192.168.77.0/26"))
	kittest.Eventually(t, "the client to be kept out", func() error {
		line, err := l.hear(addr, 80, time.Second)
		if err == nil {
			return fmt.Errorf("it hears %q", line)
		}
		return nil
	})
	if _, err := l.hear(addr, 80, time.Second); err == nil {
		t.Error("the client is let in once more")
	}
	l.apply(t, narrow("192.168.77.64/26"))
	kittest.Eventually(t, "the service again", open)
}

// sharedAddress gives two services with backends on different nodes one address.
func (l *lan) sharedAddress(t *testing.T) {
	addr := netip.MustParseAddr("192.168.77.53")
	share := map[string]string{object.AnnotationBalancerShare: "both"}
	for n, name := range []string{"first", "second"} {
		l.apply(t, balancer(name, addr, share, int32(80+n), nil))
		l.apply(t, endpointsOn(name, l.Nodes[n]))
	}
	for n := range 2 {
		kittest.Eventually(t, "the backend of "+l.Nodes[n].Name, func() error {
			return l.hears(addr, uint16(80+n), l.Nodes[n].Name+" ")
		})
	}
}

// serveOn answers connections to the node's own address: with the name of the node and the client's
// address.
func (l *lan) serveOn(t *testing.T, node *labtest.Node) {
	t.Helper()
	var lis net.Listener
	err := node.Namespace.Do(func() (err error) {
		lis, err = net.Listen("tcp", netip.AddrPortFrom(node.Addresses[0], backendPort).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = fmt.Fprintln(conn, node.Name, netip.MustParseAddrPort(conn.RemoteAddr().String()).Addr())
				_ = conn.Close()
			}
		}
	}()
}

// balancer returns a service that requests an address.
func balancer(name string, addr netip.Addr, annotations map[string]string, port int32, change func(*corev1.ServiceSpec)) *corev1.Service {
	wishes := map[string]string{object.AnnotationBalancerIPs: addr.String()}
	maps.Copy(wishes, annotations)
	spec := &corev1.ServiceSpec{
		Type:  corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER,
		Ports: []*corev1.ServicePort{{Port: port, Protocol: corev1.Protocol_PROTOCOL_TCP}},
	}
	if change != nil {
		change(spec)
	}
	return &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Annotations: wishes}, Spec: spec}
}

// endpointsOn returns the slice of a service with the backend of a node as its only endpoint.
func endpointsOn(service string, node *labtest.Node) *corev1.EndpointSlice {
	port := int32(backendPort)
	s := slice(service, corev1.AddressType_ADDRESS_TYPE_IPV4, node.Addresses[0].String(), &port)
	s.Metadata.Labels[object.LabelServiceName] = service
	s.Endpoints[0].NodeName = &node.Name
	return s
}

func (l *lan) apply(t *testing.T, o object.Object) {
	t.Helper()
	if _, err := l.Registry.Apply(t.Context(), o, false); err != nil {
		t.Fatalf("apply %s: %v", object.KeyOf(o), err)
	}
}

// hears returns an error unless the backend's answer begins with a text.
func (l *lan) hears(addr netip.Addr, port uint16, want string) error {
	line, err := l.hear(addr, port, time.Second)
	if err == nil && !strings.HasPrefix(line, want) {
		err = fmt.Errorf("it hears %q, not %q", line, want)
	}
	return err
}

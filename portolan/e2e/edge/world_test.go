package edge

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// hub is the address of the control plane, where the tests' backends are too.
const hub = "172.31.0.1"

// lifetime is the lifetime of certificates, longer than any test.
const lifetime = 4 * time.Hour

// stopTimeout is the -stop-timeout of the edges.
const stopTimeout = 5 * time.Second

// world is an installation with edges.
type world struct {
	*labtest.Installation
	client *topology.Namespace
	edges  map[string]*labtest.Process // by node
	dirs   map[string]string           // of the edges' data, by node
}

// clientAt is the client's address.
const clientAt = "192.168.77.100"

// install starts two nodes with edges, and a client beside them on a bridge.
func install(t *testing.T) *world {
	t.Helper()
	labtest.Need(t)
	mode := labtest.Modes()
	if mode[0] == "userspace" {
		t.Skip("allowed: the kernel has no plane, and without one no node can have an address that it lacks")
	}
	options := labtest.Options{Secured: true, Flags: map[string][]string{
		"nodeagent": {"-lbctl", hub + ":7406", "-announce-interfaces", "lan"}, "allocator": {"-load-balancer-pool", "192.168.77.48/28"},
	}}
	for _, name := range []string{"node-a", "node-b"} {
		options.Nodes = append(options.Nodes, labtest.NodeOptions{Name: name, Zone: "z", ProxyMode: mode[len(mode)-2]})
	}
	w := &world{
		Installation: labtest.Install(t, options), client: topology.New(t, "client"), edges: map[string]*labtest.Process{}, dirs: map[string]string{},
	}
	bridge := topology.New(t, "lan")
	on := func(host byte) []netip.Prefix {
		return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 77, host}), 24)}
	}
	for n, node := range w.Nodes {
		topology.Connect(t, bridge, node.Namespace, nil, on(byte(n+1)))
	}
	topology.Connect(t, bridge, w.client, nil, on(100))
	bridge.Bridge(t, "br")
	w.startDaemons(t)
	return w
}

// startDaemons starts lbctl and the edges, each with a certificate of its role.
func (w *world) startDaemons(t *testing.T) {
	t.Helper()
	certs := map[string]identity.Files{"lbctl": w.Issue("lbctl", lifetime)}
	for _, node := range w.Nodes {
		w.Issue("edge/"+node.Name, lifetime)
		w.dirs[node.Name] = t.TempDir()
	}
	w.ReloadNATS()
	labtest.Start(t, "lbctl", "lbctl", w.Hub, slices.Concat(w.common(hub, 7406, certs["lbctl"]), []string{"-allocator", w.AllocatorAt().String()}))
	for _, node := range w.Nodes {
		w.startEdge(node)
	}
}

// common returns the flags that all daemons have.
func (w *world) common(at string, port int, files identity.Files) []string {
	return []string{
		"-addr", fmt.Sprintf("%s:%d", at, port), "-http-addr", fmt.Sprintf("%s:%d", at, port+100), "-log-format", "json", "-nats-url", w.NATS(),
		"-registry", w.RegistryAt().String(), "-tls-cert", files.Cert, "-tls-key", files.Key, "-tls-ca", files.CA,
	}
}

// startEdge starts the edge of a node that has none.
func (w *world) startEdge(node *labtest.Node) {
	w.Helper()
	base := filepath.Join(w.Certs, "edge-"+node.Name)
	files := identity.Files{Cert: base + ".crt", Key: base + ".key", CA: filepath.Join(w.Certs, "ca.crt")}
	at := node.Addresses[0].String()
	w.edges[node.Name] = labtest.Start(w.TB, "edge of "+node.Name, "edge", node.Namespace, slices.Concat(w.common(at, 7407, files), []string{
		"-agent", at + ":7404", "-data-dir", w.dirs[node.Name], "-stop-timeout", stopTimeout.String(),
	}))
}

// service makes a service of the class and gives it the backend of a port on the hub. All services have
// one address, each with a port of its own. It returns the address once both edges serve it.
func (w *world) service(t *testing.T, name string, port uint16, annotation, value string, backend int32) netip.AddrPort {
	t.Helper()
	w.apply(t, &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{
			balancer.Prefix + annotation: value, object.AnnotationBalancerShare: "all",
		}},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, LoadBalancerClass: proto.String(balancer.ClassEdge),
			Ports: []*corev1.ServicePort{{Port: int32(port), Protocol: corev1.Protocol_PROTOCOL_TCP}},
		},
	})
	w.apply(t, &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Namespace: "default", Name: name + "-1", Labels: map[string]string{object.LabelServiceName: name}},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4, Ports: []*corev1.EndpointPort{{Port: &backend, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		Endpoints: []*corev1.Endpoint{{Addresses: []string{hub}}},
	})
	var addr netip.Addr
	kittest.Eventually(t, "the address of "+name, func() error {
		got, err := registryv1.NewServiceServiceClient(w.Conn).GetService(t.Context(), &registryv1.GetServiceRequest{Namespace: "default", Name: name})
		if err != nil {
			return err
		}
		ingress := got.GetService().GetStatus().GetLoadBalancer().GetIngress()
		if len(ingress) != 1 {
			return errors.New("none")
		}
		addr, err = netip.ParseAddr(ingress[0].GetIp())
		return err
	})
	for _, node := range w.Nodes {
		w.serves(t, node, addr)
	}
	return netip.AddrPortFrom(addr, port)
}

func (w *world) apply(t *testing.T, o object.Object) {
	t.Helper()
	if _, err := w.Registry.Apply(t.Context(), o, false); err != nil {
		t.Fatalf("apply %s: %v", object.KeyOf(o), err)
	}
}

// serves waits until the edge of a node serves an address.
func (w *world) serves(t *testing.T, node *labtest.Node, addr netip.Addr) {
	t.Helper()
	kittest.Eventually(t, "the edge of "+node.Name, func() error {
		status, err := node.Agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		for _, a := range status.GetProxy().GetAddresses() {
			if a.GetAddress() == addr.String() && a.GetServed() {
				return nil
			}
		}
		return fmt.Errorf("%v", status.GetProxy())
	})
}

// announcer waits until a node other than one announces an address, and returns it.
func (w *world) announcer(t *testing.T, addr netip.Addr, not *labtest.Node) (found *labtest.Node) {
	t.Helper()
	kittest.Eventually(t, "a node that announces "+addr.String(), func() error {
		for _, node := range w.Nodes {
			status, err := node.Agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
			if err != nil {
				return err
			}
			if node != not && slices.ContainsFunc(status.GetAnnouncing().GetAddresses(), func(a *nodeagentv1.AnnouncedAddress) bool { return a.GetAddress() == addr.String() }) {
				found = node
				return nil
			}
		}
		return errors.New("none")
	})
	return found
}

// other returns the node that is not this one.
func (w *world) other(node *labtest.Node) *labtest.Node {
	return w.Nodes[slices.IndexFunc(w.Nodes, func(n *labtest.Node) bool { return n != node })]
}

// listen listens at a free port of the hub until the test ends.
func (w *world) listen(t *testing.T) (net.Listener, int32) {
	t.Helper()
	var lis net.Listener
	err := w.Hub.Do(func() (err error) {
		lis, err = net.Listen("tcp", hub+":0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	return lis, int32(lis.Addr().(*net.TCPAddr).Port)
}

// exists returns an error unless a folder of an edge has its view.
func exists(folder string) error {
	_, err := os.Stat(filepath.Join(folder, "view.pb"))
	return err
}

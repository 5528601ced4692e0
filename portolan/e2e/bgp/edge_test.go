package bgp

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestEdges serves an address by edges on two of three nodes. The agents of these nodes advertise it. The
// router has routes through the nodes with a running edge, and no connection fails when an edge is told to
// stop.
func TestEdges(t *testing.T) {
	w := install(t, 3, "")
	addr := netip.MustParseAddr("203.0.113.20")
	w.makeServiceOfEdges(t, addr)
	edges := map[int]*labtest.Process{1: w.startEdge(t, 1), 2: w.startEdge(t, 2)}
	w.router.await(addr, 1, 2)
	reach := func() error {
		_, err := w.reach(addr)
		return err
	}
	kittest.Eventually(t, "the service at "+addr.String(), reach)
	begun := time.Now()
	edges[1].Kill()
	w.router.await(addr, 2)
	t.Logf("edge_killed_to_routes_seconds: %.3f", time.Since(begun).Seconds())
	if err := reach(); err != nil {
		t.Error(err)
	}
	edges[1] = w.startEdge(t, 1)
	w.router.await(addr, 1, 2)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		edges[2].Stop()
	}()
	for n, ended := 0, false; !ended; n++ {
		select {
		case <-stopped:
			ended = true
			t.Logf("%d connections while an edge stopped", n)
		default:
		}
		if err := reach(); err != nil {
			t.Fatalf("connection %d while an edge stops: %v", n, err)
		}
	}
	w.router.await(addr, 1)
}

// makeServiceOfEdges makes a service at an address that edges serve, with the pod of the third node as
// its endpoint.
func (w *world) makeServiceOfEdges(t *testing.T, addr netip.Addr) {
	t.Helper()
	meta := &corev1.ObjectMeta{Namespace: "default", Name: "edge"}
	w.apply(&corev1.Service{Metadata: meta, Spec: &corev1.ServiceSpec{
		Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, LoadBalancerClass: proto.String(balancer.ClassEdge),
		Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}},
	}})
	port := int32(podPort)
	w.apply(&corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Namespace: "default", Name: "edge-1", Labels: map[string]string{object.LabelServiceName: "edge"}},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4, Ports: []*corev1.EndpointPort{{Port: &port, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		Endpoints: []*corev1.Endpoint{{Addresses: []string{podAddresses(w.Nodes[2])[0].String()}}},
	})
	status := &corev1.Service{Metadata: meta, Status: &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{
		Ingress: []*corev1.LoadBalancerIngress{{Ip: addr.String(), IpMode: corev1.IPMode_IP_MODE_PROXY}},
	}}}
	if _, err := registryv1.NewServiceServiceClient(w.Conn).UpdateServiceStatus(t.Context(), &registryv1.UpdateServiceStatusRequest{Service: status}); err != nil {
		t.Fatal(err)
	}
}

// startEdge starts the edge of a node. If the router moves an open connection to another node, the edge
// never sees the end of the connection. The stop timeout is therefore short.
func (w *world) startEdge(t *testing.T, number int) *labtest.Process {
	t.Helper()
	node := w.Nodes[number-1]
	at := func(port int) string { return fmt.Sprintf("%s:%d", node.Addresses[0], port) }
	return labtest.Start(t, "edge on "+node.Name, "edge", node.Namespace, []string{
		"-addr", at(7407), "-http-addr", at(7507), "-log-format", "json", "-nats-url", w.NATS(), "-insecure",
		"-registry", w.RegistryAt().String(), "-agent", at(7404), "-node-name", node.Name, "-stop-timeout", "5s",
	})
}

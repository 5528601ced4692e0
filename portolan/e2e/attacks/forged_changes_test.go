package attacks

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

const (
	trueBackend      = "10.244.200.1:8080"
	attackersBackend = "10.244.200.66:8080"
)

// TestForgedChangesAreHealed publishes a forged EndpointSlice with full power over NATS. Both nodes
// forward to the attacker's backend. Within seconds n1 must notice the difference by itself, report it,
// stay ready, forward to the true backend, and ignore NATS. n2 must do so when an operator resyncs it.
// Afterwards explain must name only the true backend.
func TestForgedChangesAreHealed(t *testing.T) {
	const intruder = "operator"
	i := labtest.Install(t, labtest.Options{
		Secured: true, NATSIntruder: intruder,
		Nodes: []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}, {Name: "n2", ProxyMode: "userspace"}},
	})
	i.ServeBackends([]int32{8080})
	service, slice := createService(t, i)
	at := netip.AddrPortFrom(netip.MustParseAddr(service.GetSpec().GetClusterIp()), 80)
	for _, node := range i.Nodes {
		awaitBackend(t, node, at, trueBackend, func() {})
	}
	nc, err := nats.Connect(i.NATS(), nats.Secure(i.Source(i.Issue(intruder, time.Hour)).TLS(identity.NATS)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	forge := func() { publishForged(t, i, nc, slice) }

	awaitBackend(t, i.Nodes[0], at, attackersBackend, forge)
	began := time.Now()
	resync, err := i.Nodes[1].Agent.Resync(t.Context(), &nodeagentv1.ResyncRequest{})
	if err != nil || resync.GetNotCompared() != "" {
		t.Fatalf("resync of n2: %v, %v", resync, err)
	}
	t.Logf("resync of n2 corrected %d objects", resync.GetObjectsCorrected())
	plan, err := i.Nodes[1].Agent.GetPlan(t.Context(), &nodeagentv1.GetPlanRequest{Name: "web"})
	if err != nil || strings.Contains(plan.String(), "10.244.200.66") {
		t.Errorf("n2 after its resync: %v, %v", plan, err)
	}
	awaitBackend(t, i.Nodes[0], at, trueBackend, func() {})
	t.Logf("n1 forwarded to the attacker for at most %s", time.Since(began).Round(100*time.Millisecond))
	for _, name := range []string{"n1", "n2"} {
		if i.Metric(name, `portolan_changes_forged_total{what="changes"}`) == 0 {
			t.Errorf("%s reports no forged change", name)
		}
		if page := i.Page(name, "/readyz"); !strings.HasPrefix(page, "ok\nwarning: changes: NATS delivered") {
			t.Errorf("%s: /readyz says %q", name, page)
		}
	}
	status, err := i.Nodes[0].Agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
	if err != nil || len(status.GetWarnings()) != 1 {
		t.Errorf("status of n1: %v, %v", status.GetWarnings(), err)
	}
	for range 10 {
		forge()
	}
	out, err := labtest.Command(t, "portolan", []string{
		"--server", i.RegistryAt().String(), "--certs", i.Certs, "--timeout", "30s", "explain", "service", "web",
	}).CombinedOutput()
	if err != nil || strings.Contains(string(out), "10.244.200.66") || !strings.Contains(string(out), trueBackend) {
		t.Errorf("explain: %v\n%s", err, out)
	}
	for _, node := range i.Nodes {
		awaitBackend(t, node, at, trueBackend, func() {})
	}
}

// createService creates a service with an EndpointSlice written by hand.
func createService(t *testing.T, i *labtest.Installation) (*corev1.Service, *corev1.EndpointSlice) {
	t.Helper()
	created, err := registryv1.NewServiceServiceClient(i.Conn).CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:     &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	written, err := registryv1.NewEndpointSliceServiceClient(i.Conn).CreateEndpointSlice(t.Context(), &registryv1.CreateEndpointSliceRequest{EndpointSlice: &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Name: "web-1", Namespace: "default", Labels: map[string]string{object.LabelServiceName: "web"}},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Endpoints:   []*corev1.Endpoint{{Addresses: []string{"10.244.200.1"}}},
		Ports:       []*corev1.EndpointPort{{Port: new(int32(8080)), Protocol: corev1.Protocol_PROTOCOL_TCP}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return created.GetService(), written.GetEndpointSlice()
}

// publishForged publishes, as the next revision, the slice with the attacker's backend, with all
// headers that the NATS server and the relay would set.
func publishForged(t *testing.T, i *labtest.Installation, nc *nats.Conn, slice *corev1.EndpointSlice) {
	t.Helper()
	head, err := registryv1.NewChangeServiceClient(i.Conn).GetHead(t.Context(), &registryv1.GetHeadRequest{})
	if err != nil {
		t.Fatal(err)
	}
	forged := proto.CloneOf(slice)
	forged.Metadata.ResourceVersion = head.GetRevision() + 1
	forged.Endpoints[0].Addresses = []string{"10.244.200.66"}
	payload, err := proto.Marshal(&registryv1.Change{
		Revision: head.GetRevision() + 1, Type: registryv1.ChangeType_CHANGE_TYPE_PUT, Object: object.Wrap(forged),
	})
	if err != nil {
		t.Fatal(err)
	}
	const subject = "chg.EndpointSlice.default.web-1"
	err = nc.PublishMsg(&nats.Msg{Subject: "portolan.rep." + subject, Data: payload, Header: nats.Header{
		"Portolan-Epoch": {head.GetEpoch()}, "Portolan-Encoding": {"1"}, "Nats-Stream": {"portolan_CHG"}, "Nats-Subject": {"portolan." + subject},
		"Nats-Sequence": {fmt.Sprint(head.GetRevision() + 1)}, "Nats-Last-Sequence": {"0"},
	}})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// awaitBackend calls before and connects to an address from a node, again and again until the
// connection reaches the given backend.
func awaitBackend(t *testing.T, node *labtest.Node, at netip.AddrPort, backend string, before func()) {
	t.Helper()
	kittest.Eventually(t, node.Name+" forwards to "+backend, func() error {
		before()
		got := ""
		err := node.Namespace.Do(func() error {
			conn, err := net.DialTimeout("tcp", at.String(), time.Second)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			got, err = bufio.NewReader(conn).ReadString('\n')
			return err
		})
		if got = strings.TrimSpace(got); err == nil && got != backend {
			err = fmt.Errorf("it forwards to %q", got)
		}
		return err
	})
}

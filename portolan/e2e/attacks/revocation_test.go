package attacks

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	dnsv1 "portolan.dev/api/dns/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// TestRevokedCertificates uses stolen certificates while the operator revokes them. Connections of
// the registry end every few seconds meanwhile. That must not disturb the other clients.
func TestRevokedCertificates(t *testing.T) {
	i := labtest.Install(t, labtest.Options{
		Secured: true,
		Nodes:   []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}, {Name: "n2", ProxyMode: "userspace"}},
		Flags:   map[string][]string{"registry": {"-max-connection-age", "6s"}},
	})
	watch := watchNamespaces(t, i)
	t.Run("agent", func(t *testing.T) { useStolenAgent(t, i) })
	t.Run("other daemons", func(t *testing.T) { useStolenViewer(t, i) })
	t.Run("HTTP", func(t *testing.T) { useStolenMonitor(t, i) })
	t.Run("deleted node", func(t *testing.T) { outliveNode(t, i) })
	t.Run("watch", func(t *testing.T) { checkWatch(t, i, watch) })
	i.StopNATS()
	t.Run("other daemons without NATS", func(t *testing.T) { useStolenViewer(t, i) })
}

// portolan runs the command line with the operator's certificate and returns its output.
func portolan(t *testing.T, i *labtest.Installation, args ...string) string {
	t.Helper()
	out, err := labtest.Command(t, "portolan", append([]string{"--server", i.RegistryAt().String(), "--certs", i.Certs}, args...)).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// watchNamespaces runs a command that watches namespaces until the test ends.
func watchNamespaces(t *testing.T, i *labtest.Installation) *labtest.Process {
	t.Helper()
	watch := labtest.Run(t, "watch", labtest.Command(t, "portolan", []string{
		"--server", i.RegistryAt().String(), "--certs", i.Certs, "get", "namespaces", "-w",
	}), i.Hub)
	kittest.Eventually(t, "the watch", func() error { return printed(watch, "default") })
	return watch
}

// checkWatch checks that the command has watched through the end of its connections.
func checkWatch(t *testing.T, i *labtest.Installation, watch *labtest.Process) {
	namespaces := registryv1.NewNamespaceServiceClient(i.Conn)
	if _, err := namespaces.CreateNamespace(t.Context(), &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "late"}}}); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the watch to show a new namespace", func() error { return printed(watch, "late") })
	if printed(watch, "error:") == nil {
		t.Error("the watch failed")
	}
}

// printed returns nil if a process has printed or logged a text.
func printed(process *labtest.Process, text string) error {
	out, err := os.ReadFile(process.LogFile())
	if err == nil && !strings.Contains(string(out), text) {
		err = fmt.Errorf("it has not printed %q", text)
	}
	return err
}

// refusedAsRevoked returns nil if a call failed because the certificate was revoked: at the call,
// or at the handshake of a new connection.
func refusedAsRevoked(err error) error {
	text := status.Convert(err).Message()
	switch {
	case status.Code(err) == codes.Unauthenticated && strings.Contains(text, "was revoked with all"):
		return nil
	case status.Code(err) == codes.Unavailable && strings.Contains(text, "it was revoked, or is not one for this use"):
		return nil
	}
	return fmt.Errorf("a call of the revoked identity: %v", err)
}

// revocationDelay is the time within which every daemon must refuse a revoked certificate.
const revocationDelay = 10 * time.Second

// useStolenAgent holds a stream to the registry and a connection to NATS with the certificate of
// n1's agent. The operator revokes it, and has the configuration of NATS written anew.
func useStolenAgent(t *testing.T, i *labtest.Installation) {
	files := i.Issue("nodeagent/n1", time.Hour)
	conn := i.DialAs(files, identity.Registry, i.RegistryAt())
	stream, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	disconnected := make(chan error, 1)
	bus, err := nats.Connect(i.NATS(), nats.Secure(i.Source(files).TLS(identity.NATS)), nats.NoReconnect(),
		nats.ClosedHandler(func(nc *nats.Conn) { disconnected <- nc.LastError() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)

	out := portolan(t, i, "certs", "revoke", "nodeagent/n1", "--reason", "stolen")
	begun := time.Now()
	for _, want := range []string{"Revoked: all certificates of nodeagent/n1 that were issued until ", "Recorded in the folder", "nats-server --signal reload", "portolan certs issue nodeagent/n1 --force"} {
		if !strings.Contains(out, want) {
			t.Errorf("the command does not say %q:\n%s", want, out)
		}
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "(stolen): portolan certs issue nodeagent/n1 --force makes a new one") {
		t.Errorf("the stream ended with %v", err)
	}
	_, err = registryv1.NewChangeServiceClient(conn).GetHead(t.Context(), &registryv1.GetHeadRequest{})
	if err := refusedAsRevoked(err); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > revocationDelay {
		t.Errorf("the registry took %s", took)
	}
	if i.Metric("registry", `portolan_tls_denied_total{place="stream"}`) == 0 || i.Metric("registry", "portolan_tls_revocations") != 1 {
		t.Error("the registry's metrics do not show the revocation")
	}
	i.ReloadNATS()
	select {
	case err := <-disconnected:
		t.Logf("NATS closed the connection: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("NATS keeps the connection of the revoked agent")
	}
	if bus, err := nats.Connect(i.NATS(), nats.Secure(i.Source(files).TLS(identity.NATS))); err == nil {
		bus.Close()
		t.Error("NATS lets the revoked agent in")
	}
	kittest.Eventually(t, "the error of the agent of n1, whose certificate was revoked", func() error {
		return printed(i.Nodes[0].Process, "portolan certs issue nodeagent/n1 --force")
	})
	if list := portolan(t, i, "certs", "list"); !strings.Contains(list, "revoked") {
		t.Errorf("certs list:\n%s", list)
	}
	portolan(t, i, "certs", "issue", "nodeagent/n1", "--force")
	i.ReloadNATS()
	if _, err := registryv1.NewChangeServiceClient(i.DialAs(files, identity.Registry, i.RegistryAt())).GetHead(t.Context(), &registryv1.GetHeadRequest{}); err != nil {
		t.Errorf("the certificate that was issued after the revocation: %v", err)
	}
}

// useStolenViewer asks daemons other than the registry with a viewer's certificate until they have
// heard of its revocation.
func useStolenViewer(t *testing.T, i *labtest.Installation) {
	files := i.Issue("viewer", time.Hour)
	at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(i.RegistryAt().Addr(), port) }
	dial := func(role identity.Role, at netip.AddrPort) *grpc.ClientConn { return i.DialAs(files, role, at) }
	endpoints := endpointsv1.NewEndpointControllerServiceClient(dial(identity.EndpointCtl, at(7402)))
	names := dnsv1.NewDNSServiceClient(dial(identity.DNSSvc, at(7403)))
	agent := nodeagentv1.NewNodeAgentServiceClient(dial(identity.NodeAgent, netip.AddrPortFrom(i.Nodes[1].Addresses[0], 7404)))
	calls := map[string]func() error{
		"endpointctl": func() error {
			_, err := endpoints.GetStatus(t.Context(), &endpointsv1.GetStatusRequest{})
			return err
		},
		"dnssvc": func() error { _, err := names.GetStatus(t.Context(), &dnsv1.GetStatusRequest{}); return err },
		"nodeagent": func() error {
			_, err := agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
			return err
		},
	}
	for name, call := range calls {
		if err := call(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	portolan(t, i, "certs", "revoke", "viewer")
	begun := time.Now()
	for name, call := range calls {
		kittest.Eventually(t, name+" to refuse the revoked certificate", func() error { return refusedAsRevoked(call()) })
		t.Logf("%s refused the certificate after %s", name, time.Since(begun))
	}
	if took := time.Since(begun); took > revocationDelay {
		t.Errorf("the daemons took %s", took)
	}
}

// useStolenMonitor reads the metrics of endpointctl with a monitor's certificate, over one
// connection and over new ones.
func useStolenMonitor(t *testing.T, i *labtest.Installation) {
	files := i.Issue("monitor/prometheus", time.Hour)
	lasting := &http.Client{Transport: &http.Transport{TLSClientConfig: i.Source(files).TLS(identity.EndpointCtl)}}
	url := fmt.Sprintf("https://%s:7502/metrics", i.RegistryAt().Addr())
	if code, text, err := ask(t.Context(), lasting, http.MethodGet, url, "", ""); err != nil || code != http.StatusOK {
		t.Fatalf("%d %.100q %v", code, text, err)
	}
	portolan(t, i, "certs", "revoke", files.Cert)
	kittest.Eventually(t, "the refusal of the open connection", func() error {
		code, text, err := ask(t.Context(), lasting, http.MethodGet, url, "", "")
		if err == nil && code == http.StatusUnauthorized && strings.Contains(text, "was revoked by its serial number") {
			return nil
		}
		return fmt.Errorf("%d %.100q %w", code, text, err)
	})
	if code, text, err := ask(t.Context(), i.HTTPAs(files, identity.EndpointCtl), http.MethodGet, url, "", ""); err == nil {
		t.Errorf("a new connection: %d %.100q", code, text)
	}
}

// outliveNode keeps the agent of n2 running when the operator deletes its Node. Neither the agent nor a
// thief with its certificate may create the Node again.
func outliveNode(t *testing.T, i *labtest.Installation) {
	thief := registryv1.NewNodeServiceClient(i.DialAs(i.Issue("nodeagent/n2", time.Hour), identity.Registry, i.RegistryAt()))
	nodes := registryv1.NewNodeServiceClient(i.Conn)
	before := i.Metric("registry", `portolan_tls_denied_total{place="call"}`) + i.Metric("registry", `portolan_tls_denied_total{place="connection"}`)
	if out := portolan(t, i, "delete", "node", "n2"); !strings.Contains(out, "portolan certs issue nodeagent/n2 edge/n2 registrar/n2 --force") {
		t.Errorf("delete does not say how the node comes back:\n%s", out)
	}
	_, err := thief.CreateNode(t.Context(), &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n2"}}})
	if err := refusedAsRevoked(err); err != nil {
		t.Error(err)
	}
	kittest.Eventually(t, "the refusal of the agent itself", func() error {
		return printed(i.Nodes[1].Process, "portolan certs issue nodeagent/n2 --force")
	})
	if _, err := nodes.GetNode(t.Context(), &registryv1.GetNodeRequest{Name: "n2"}); !apierr.IsNotFound(err) {
		t.Errorf("the deleted node is back: %v", err)
	}
	if after := i.Metric("registry", `portolan_tls_denied_total{place="call"}`) + i.Metric("registry", `portolan_tls_denied_total{place="connection"}`); after <= before {
		t.Errorf("refusals are not counted: %v, then %v", before, after)
	}
	if list := portolan(t, i, "get", "revocations"); !strings.Contains(list, "Node n2 was deleted") {
		t.Errorf("get revocations:\n%s", list)
	}
	portolan(t, i, "certs", "issue", "nodeagent/n2", "--force")
	kittest.Eventually(t, "the node with a new certificate", func() error {
		_, err := nodes.GetNode(t.Context(), &registryv1.GetNodeRequest{Name: "n2"})
		return err
	})
}

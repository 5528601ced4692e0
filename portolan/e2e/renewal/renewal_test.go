package renewal

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// life is the lifetime of a certificate. A daemon has about a third of it for a renewal, and the
// machine of the tests may be slow.
const life = 30 * time.Second

// daemons are the daemons of the installation with their roles and ports.
var daemons = []struct {
	name string
	role identity.Role
	port uint16
}{
	{"registry", identity.Registry, 7400}, {"allocator", identity.Allocator, 7401}, {"endpointctl", identity.EndpointCtl, 7402},
	{"dnssvc", identity.DNSSvc, 7403}, {"nodeagent", identity.NodeAgent, 7404},
}

// lab is an installation with an operator who looks at it.
type lab struct {
	*labtest.Installation
	operator *identity.Source
}

func install(t *testing.T, lifetime time.Duration, flags map[string][]string) *lab {
	t.Helper()
	i := labtest.Install(t, labtest.Options{
		Secured: true, Lifetime: lifetime, Nodes: []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}}, Flags: flags,
	})
	return &lab{i, i.Source(i.Issue("operator", time.Hour))}
}

// at returns the address of a daemon's API.
func (l *lab) at(port uint16) netip.AddrPort {
	if port == 7404 {
		return netip.AddrPortFrom(l.Nodes[0].Addresses[0], port)
	}
	return netip.AddrPortFrom(l.RegistryAt().Addr(), port)
}

// presented returns the certificate that a daemon presents on a new connection.
func (l *lab) presented(role identity.Role, port uint16) (*x509.Certificate, error) {
	config := l.operator.TLS(role)
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", l.at(port).String(), config)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0], nil
}

// awaitRenewed waits until every daemon presents a certificate that was issued after a time.
func (l *lab) awaitRenewed(t *testing.T, after time.Time) {
	t.Helper()
	for _, d := range daemons {
		kittest.Eventually(t, "the renewal of "+d.name, func() error {
			cert, err := l.presented(d.role, d.port)
			if err == nil && !cert.NotBefore.Add(life/10).After(after) {
				err = fmt.Errorf("it has a certificate from %s until %s", cert.NotBefore, cert.NotAfter)
			}
			return err
		})
	}
}

// metrics returns the metrics of a daemon.
func (l *lab) metrics(t *testing.T, role identity.Role, port uint16) string {
	t.Helper()
	client := l.HTTPAs(l.Issue("operator", time.Hour), role)
	answer, err := client.Get("https://" + netip.AddrPortFrom(l.at(port).Addr(), port+100).String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkNoneRefused fails if a daemon has refused a call because of the caller's certificate.
func (l *lab) checkNoneRefused(t *testing.T) {
	t.Helper()
	for _, d := range daemons {
		for line := range strings.Lines(l.metrics(t, d.role, d.port)) {
			if strings.HasPrefix(line, "portolan_rpc_requests_total{") && strings.Contains(line, `code="Unauthenticated"`) && !strings.HasSuffix(line, " 0\n") {
				t.Errorf("%s refused calls: %s", d.name, line)
			}
		}
	}
}

// write makes a write that needs the registry, its store and the allocator.
func (l *lab) write(t *testing.T, name string) error {
	services := registryv1.NewServiceServiceClient(l.Conn)
	_, err := services.CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:     &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}}},
	}})
	if err != nil {
		return err
	}
	_, err = services.DeleteService(t.Context(), &registryv1.DeleteServiceRequest{Namespace: "default", Name: name})
	return err
}

// writeUntil writes once in a while until a time. No write may fail.
func (l *lab) writeUntil(t *testing.T, end time.Time) {
	t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; time.Now().Before(end); n++ {
		if err := l.write(t, fmt.Sprintf("written-%d", n)); err != nil {
			t.Errorf("a write failed: %v", err)
		}
		<-ticker.C
	}
}

// TestDaemonsRenewTheirCertificates lets an installation run for several lives of its certificates,
// while it is written to. Then it restarts daemons whose first certificates have expired, and takes
// the registry away at the time of a renewal.
func TestDaemonsRenewTheirCertificates(t *testing.T) {
	l := install(t, life, nil)
	start := time.Now()
	l.writeUntil(t, start.Add(3*life/2)) // each certificate is renewed after two thirds of its life, so at least twice
	l.awaitRenewed(t, start.Add(life/2))
	l.checkNoneRefused(t)

	for _, name := range []string{"allocator", "registry"} { // their first certificates have expired
		l.Restart(name)
	}
	kittest.Eventually(t, "a write after the restarts", func() error { return l.write(t, "restarted") })

	// All daemons have renewed just now or will soon, so the outage is long enough to meet some.
	l.Processes["registry"].Stop()
	away := time.Now()
	kittest.Eventually(t, "a failed renewal", func() error {
		for _, d := range daemons[1:] {
			text := l.metrics(t, d.role, d.port)
			if _, rest, ok := strings.Cut(text, `portolan_tls_renewals_total{outcome="failed"} `); ok && !strings.HasPrefix(rest, "0\n") {
				return nil
			}
		}
		return fmt.Errorf("none after %s", time.Since(away))
	})
	// The registry renews its own certificate, so it cannot start if that has expired while it was away. How long the
	// failed renewal took to come depends on the machine, so the registry gets a certificate that was issued just now.
	l.Issue("registry", time.Hour)
	l.Restart("registry")
	l.awaitRenewed(t, away)
	kittest.Eventually(t, "a write after the outage", func() error { return l.write(t, "back") })
}

// TestWithoutAnIssuerFailuresAreCounted checks what the alert for failed renewals sees, at the
// registry too, which renews its own certificate.
func TestWithoutAnIssuerFailuresAreCounted(t *testing.T) {
	l := install(t, life, map[string][]string{"registry": {"-issuer-cert", "", "-issuer-key", ""}})
	for _, name := range []string{"registry", "allocator"} {
		kittest.Eventually(t, "a failed renewal of "+name, func() error {
			if l.Metric(name, `portolan_tls_renewals_total{outcome="failed"}`) == 0 {
				return fmt.Errorf("none is counted")
			}
			return nil
		})
	}
	if n := l.Metric("registry", `portolan_registry_certificate_renewals_total{outcome="no_issuer"}`); n == 0 {
		t.Error("the registry did not count the refusals")
	}
}

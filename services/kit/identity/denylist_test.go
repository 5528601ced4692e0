package identity_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// serialOfFile returns the serial number of the certificate in a file, as denials have it.
func serialOfFile(t *testing.T, path string) string {
	t.Helper()
	cert, err := authority.ParseCert(read(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return cert.SerialNumber.Text(16)
}

// TestDeniedCertificatesAreRefused denies certificates of clients and of servers, by identity and by
// serial number, and checks which connections are still made.
func TestDeniedCertificatesAreRefused(t *testing.T) {
	certs := kittest.NewCertificates(t)
	server, log, reg := open(t, identity.Options{Files: certs.Issue("registry", time.Hour)})
	s := serve(t, server)
	connect := func(source *identity.Source) error {
		return check(t, dial(t, s.addr, source.DialOption(identity.Registry)))
	}
	files := certs.Issue("nodeagent/n1", time.Hour)
	agent, _, _ := open(t, identity.Options{Files: files})
	other := certs.Source("nodeagent/n2")
	for _, tt := range []struct {
		name    string
		denials map[string]identity.Denial
		refused bool
	}{
		{"none", nil, false},
		{"identity", map[string]identity.Denial{"a": {Identity: "nodeagent/n1", IssuedBefore: time.Now()}}, true},
		{"issued later", map[string]identity.Denial{"a": {Identity: "nodeagent/n1", IssuedBefore: time.Now().Add(-time.Minute)}}, false},
		{"the later of two", map[string]identity.Denial{
			"a": {Identity: "nodeagent/n1", IssuedBefore: time.Now()}, "b": {Identity: "nodeagent/n1", IssuedBefore: time.Now().Add(-time.Minute)},
		}, true},
		{"serial", map[string]identity.Denial{"a": {Serial: serialOfFile(t, files.Cert)}}, true},
		{"another serial", map[string]identity.Denial{"a": {Serial: "abc"}}, false},
	} {
		server.DenyList().Replace(tt.denials)
		if err := connect(agent); (err != nil) != tt.refused || tt.refused && !strings.Contains(err.Error(), "it was revoked") {
			t.Errorf("%s: %v, want refused %t", tt.name, err, tt.refused)
		}
		if err := connect(other); err != nil {
			t.Errorf("%s: another node's agent: %v", tt.name, err)
		}
		if got := int(metric(t, reg, "portolan_tls_revocations", "")); got != len(tt.denials) {
			t.Errorf("%s: the metric has %d revocations", tt.name, got)
		}
	}
	if metric(t, reg, "portolan_tls_denied_total", "connection") == 0 {
		t.Error("refused connections are not counted")
	}
	if !strings.Contains(log.String(), "the client's certificate (spiffe://portolan/nodeagent/n1, serial number ") {
		t.Errorf("the log does not name the refused certificate:\n%s", log)
	}
	server.DenyList().Replace(nil)
	agent.DenyList().Replace(map[string]identity.Denial{"a": {Identity: "registry", IssuedBefore: time.Now()}})
	if err := connect(agent); err == nil || !strings.Contains(err.Error(), "the server's certificate (registry") {
		t.Errorf("a client with a denied server: %v", err)
	}
}

// TestDeniedLineage denies the serial number of a certificate that was renewed meanwhile, as a thief
// of its key would do.
func TestDeniedLineage(t *testing.T) {
	i := newInstallation(t)
	first := i.pair(i.authority, "dnssvc", time.Hour)
	id, err := identity.ParsePath("portolan", "dnssvc")
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := i.issuer.Issue(authority.Request{ID: id, Lifetime: time.Hour, Lineage: serialOf(t, first.Cert)})
	if err != nil {
		t.Fatal(err)
	}
	i.configure(renewed)
	thief, _, _ := open(t, identity.Options{Files: i.files()})
	i.configure(i.pair(i.authority, "registry", time.Hour))
	server, _, _ := open(t, identity.Options{Files: i.files()})
	s := serve(t, server)
	connect := func() error { return check(t, dial(t, s.addr, thief.DialOption(identity.Registry))) }
	if err := connect(); err != nil {
		t.Fatal(err)
	}
	server.DenyList().Replace(map[string]identity.Denial{"a": {Serial: serialOf(t, first.Cert)}})
	if err := connect(); err == nil || !strings.Contains(err.Error(), "it was revoked") {
		t.Errorf("a renewal of a denied certificate: %v", err)
	}
}

// TestConnectionsToDeniedServersEnd denies a server to which a client has a connection.
func TestConnectionsToDeniedServersEnd(t *testing.T) {
	certs := kittest.NewCertificates(t)
	s := serve(t, certs.Source("registry"))
	source := certs.Source("dnssvc")
	client := dial(t, s.addr, source.DialOption(identity.Registry))
	if err := check(t, client); err != nil {
		t.Fatal(err)
	}
	source.DenyList().Update(map[string]identity.Denial{"a": {Identity: "registry", IssuedBefore: time.Now()}}, nil)
	kittest.Eventually(t, "the refusal of the server", func() error {
		if err := check(t, client); err == nil || !strings.Contains(err.Error(), "the server's certificate (registry") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	source.DenyList().Update(nil, []string{"a"})
	kittest.Eventually(t, "a connection to the server that is accepted again", func() error { return check(t, client) })
}

// BenchmarkCheckRevoked measures the cost of the list for each call, without entries and with many.
func BenchmarkCheckRevoked(b *testing.B) {
	for _, entries := range []int{0, 10, 100_000} {
		b.Run(fmt.Sprint(entries), func(b *testing.B) {
			certs := kittest.NewCertificates(b)
			source := certs.Source("registry")
			all := map[string]identity.Denial{}
			for n := range entries {
				all[fmt.Sprint(n)] = identity.Denial{Identity: fmt.Sprintf("nodeagent/n%d", n), IssuedBefore: time.Now()}
			}
			source.DenyList().Replace(all)
			lis := kittest.Listen(b)
			served := make(chan struct{})
			server := grpc.NewServer(grpc.Creds(source.ServerCredentials()), grpc.UnaryInterceptor(
				func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
					for b.Loop() {
						if err := identity.CheckRevoked(ctx); err != nil {
							b.Error(err)
						}
					}
					return nil, status.Error(codes.Aborted, "measured")
				}))
			healthpb.RegisterHealthServer(server, &healthpb.UnimplementedHealthServer{})
			go func() { defer close(served); _ = server.Serve(lis) }()
			conn, err := grpc.NewClient(lis.Addr().String(), certs.Source("operator").DialOption(identity.Registry))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			if _, err := healthpb.NewHealthClient(conn).Check(b.Context(), &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Aborted {
				b.Fatal(err)
			}
			_ = conn.Close()
			server.Stop()
			<-served
		})
	}
}

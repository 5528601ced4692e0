package identity_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

func TestBothEndsKnowEachOther(t *testing.T) {
	certs := kittest.NewCertificates(t)
	s := serve(t, certs.Source("registry"))
	for _, who := range []string{"allocator", "nodeagent/n1.example.com", "operator", "operator/shop"} {
		if err := check(t, dial(t, s.addr, certs.Source(who).DialOption(identity.Registry))); err != nil {
			t.Errorf("%s: %v", who, err)
		}
		if want := "spiffe://portolan/" + who; s.last() != want {
			t.Errorf("the server saw %s, want %s", s.last(), want)
		}
	}
}

// TestStrangersAreToldWhy checks that clients without a usable certificate are refused, and that
// both sides report the reason in one line.
func TestStrangersAreToldWhy(t *testing.T) {
	certs, foreign := kittest.NewCertificates(t), kittest.NewCertificates(t)
	files := certs.Issue("registry", time.Hour)
	source, log, reg := open(t, identity.Options{Files: files})
	s := serve(t, source)

	mixed := foreign.Issue("operator", time.Hour)
	mixedSource := sourceOf(t, mixed)
	// The client trusts our server's authority but has a certificate of another one, as if only one
	// side had been given a new authority.
	bundle := filepath.Join(t.TempDir(), "both.crt")
	write(t, bundle, append(read(t, mixed.CA), read(t, certs.CA())...))
	mixed.CA = bundle

	nearly := sourceOf(t, mixed)
	agent := serve(t, certs.Source("nodeagent/n2"))
	for name, c := range map[string]struct {
		addr   string
		option grpc.DialOption
		want   string
	}{
		"other authority, seen by the client": {s.addr, mixedSource.DialOption(identity.Registry), "the server's certificate (spiffe://portolan/registry) was issued by another authority"},
		"other authority, seen by the server": {s.addr, nearly.DialOption(identity.Registry), "the server refused our certificate " + mixed.Cert},
		"other role":                          {s.addr, certs.Source("operator").DialOption(identity.Allocator), "(spiffe://portolan/registry) is not of the role allocator"},
		"agent of another node":               {agent.addr, certs.Source("operator").AgentDialOption("n1"), "the server's certificate (spiffe://portolan/nodeagent/n2) is not nodeagent/n1"},
		"no TLS at the server":                {plain(t).Addr().String(), certs.Source("operator").DialOption(identity.Registry), "the server does not speak TLS"},
	} {
		client := dial(t, c.addr, c.option)
		// The error of a connection that breaks at another point has no reason. The client then
		// reconnects.
		kittest.Eventually(t, name, func() error {
			err := check(t, client)
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				return errorf("got %v\nwant %q", err, c.want)
			}
			return nil
		})
	}
	none := (*identity.Source)(nil)
	if err := check(t, dial(t, s.addr, none.DialOption(identity.Registry))); err == nil {
		t.Error("a client without TLS got through")
	}
	if s.last() != "" {
		t.Errorf("the server took a call of %s", s.last())
	}
	kittest.Eventually(t, "the server's own count", func() error {
		if n := metric(t, reg, "portolan_tls_refused_connections_total", ""); n < 2 {
			return errorf("%v connections refused", n)
		}
		// A refusal is logged after it is counted.
		if text := log.String(); !strings.Contains(text, "connection refused") || !strings.Contains(text, "peer=127.0.0.1") {
			return errorf("log:\n%s", text)
		}
		return nil
	})
}

// TestForeignTrustDomainIsNobody checks that a certificate of another trust domain has no role,
// even if its authority is trusted.
func TestForeignTrustDomainIsNobody(t *testing.T) {
	certs, other := kittest.NewCertificates(t), kittest.NewCertificatesOf(t, "elsewhere")
	both := filepath.Join(t.TempDir(), "both.crt")
	write(t, both, append(read(t, certs.CA()), read(t, other.CA())...))
	files := certs.Issue("registry", time.Hour)
	files.CA = both
	s := serve(t, sourceOf(t, files))
	theirs := other.Issue("operator", time.Hour)
	theirs.CA = both
	if err := check(t, dial(t, s.addr, sourceOf(t, theirs).DialOption(identity.Registry))); err == nil || !strings.Contains(err.Error(), "is of another trust domain than elsewhere") {
		t.Errorf("as seen by the client: %v", err)
	}
	// The client omits its own checks, so that the server's check is tested.
	config := sourceOf(t, theirs).TLS(identity.Registry)
	config.VerifyConnection = nil
	if err := check(t, dial(t, s.addr, withTLS(config))); err != nil {
		t.Fatal(err)
	}
	if want := "nobody: it is spiffe://elsewhere/operator, and this is the trust domain portolan"; s.last() != want {
		t.Errorf("got %q, want %q", s.last(), want)
	}
}

func TestBadFilesAreRefusedInOneLine(t *testing.T) {
	certs, foreign := kittest.NewCertificates(t), kittest.NewCertificates(t)
	good := certs.Issue("registry", time.Hour)
	other := certs.Issue("dnssvc", time.Hour)
	expired := certs.Issue("allocator", -time.Minute)
	junk := filepath.Join(t.TempDir(), "junk")
	write(t, junk, []byte("no PEM\n"))
	for name, c := range map[string]struct {
		files identity.Files
		role  identity.Role
		want  []string
	}{
		"nothing":        {identity.Files{}, "", []string{"tls-cert: not given", "tls-cert, tls-key and tls-ca together"}},
		"no key":         {identity.Files{Cert: good.Cert, CA: good.CA}, "", []string{"tls-key: not given"}},
		"missing file":   {identity.Files{Cert: good.Cert + "x", Key: good.Key, CA: good.CA}, "", []string{"tls-cert: open ", "no such file"}},
		"junk cert":      {identity.Files{Cert: junk, Key: good.Key, CA: good.CA}, "", []string{"tls-cert " + junk, "no certificate in PEM"}},
		"junk key":       {identity.Files{Cert: good.Cert, Key: junk, CA: good.CA}, "", []string{"tls-key " + junk, "no key in PEM"}},
		"junk ca":        {identity.Files{Cert: good.Cert, Key: good.Key, CA: junk}, "", []string{"tls-ca " + junk, "no certificate in PEM"}},
		"other key":      {identity.Files{Cert: good.Cert, Key: other.Key, CA: good.CA}, "", []string{"tls-key " + other.Key, "does not go with tls-cert " + good.Cert, "issue both together"}},
		"expired":        {expired, "", []string{"tls-cert " + expired.Cert + ": expired on ", "portolan certs renew"}},
		"foreign":        {identity.Files{Cert: good.Cert, Key: good.Key, CA: foreign.CA()}, "", []string{"was not issued by the authority in tls-ca " + foreign.CA()}},
		"wrong role":     {other, identity.Registry, []string{"is spiffe://portolan/dnssvc, not of the role registry", "portolan certs issue registry"}},
		"wrong role 2":   {other, identity.NodeAgent, []string{"portolan certs issue nodeagent/NODE"}},
		"trust domain":   {identity.Files{Cert: good.Cert, Key: good.Key, CA: good.CA, TrustDomain: "prod"}, "", []string{"is spiffe://portolan/registry, not of the trust domain prod"}},
		"an authority's": {authorityFiles(t, certs), "", []string{"URI SAN spiffe://portolan", `role "" is not known`}},
	} {
		_, err := identity.Open(identity.Options{Files: c.files, Role: c.role, Log: kittest.Logger(t)})
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\nwant %q", name, err, want)
			}
		}
	}
}

func authorityFiles(t *testing.T, certs *kittest.Certificates) identity.Files {
	t.Helper()
	key := filepath.Join(t.TempDir(), "ca.key")
	write(t, key, certs.Authority.Pair().Key)
	return identity.Files{Cert: certs.CA(), Key: key, CA: certs.CA()}
}

func TestNamesOfRoles(t *testing.T) {
	for path, want := range map[string]string{
		"registry": "", "nodeagent/n1": "", "nodeagent/a.b-c": "", "operator": "", "operator/ann": "", "viewer/shop": "", "nats": "", "postgres": "",
		"": "is not known", "root": "roles are registry, allocator", "nodeagent": "nodeagent/NODE", "nodeagent/": "ends in a slash",
		"registry/1": "takes no name", "nodeagent/..": "want letters", "nodeagent/a/b": "takes no namespace", "workload": "workload/NODE", "registrar": "registrar/NODE", "registrar/n1/a/b": "want lower-case", "workload/n1/": "ends in a slash", "workload/n1/a/b": "want lower-case", "operator/a b": "want lower-case", "operator/a.b": "want lower-case", "operator/a/b": "want lower-case",
		"viewer/" + strings.Repeat("x", 256): "want lower-case",
	} {
		id, err := identity.ParsePath("portolan", path)
		if want == "" {
			if err != nil || id.Path() != path || id.String() != "spiffe://portolan/"+path {
				t.Errorf("%q: %s, %v", path, id, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	if _, err := identity.ParsePath("Prod", "registry"); err == nil || !strings.Contains(err.Error(), `trust domain "Prod"`) {
		t.Errorf("got %v", err)
	}
}

// TestAuthorityKeepsItsBounds checks that certificates expire no later than their authority and
// have its trust domain.
func TestAuthorityKeepsItsBounds(t *testing.T) {
	a := kittest.NewCertificates(t).Authority
	pair, err := a.Issue(authority.Request{ID: identity.ID{TrustDomain: "portolan", Role: identity.Viewer}, Lifetime: 10 * time.Hour, Hosts: []string{"db", "::1"}})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.ParseCert(pair.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if cert.NotAfter.After(a.Expires()) || cert.IsCA || len(cert.DNSNames) != 1 || len(cert.IPAddresses) != 1 {
		t.Errorf("%+v", cert)
	}
	if _, err := a.Issue(authority.Request{ID: identity.ID{TrustDomain: "prod", Role: identity.Viewer}}); err == nil {
		t.Error("a certificate of another trust domain")
	}
	if _, err := authority.Load(pair); err == nil {
		t.Error("a certificate of a role counts as one of an authority")
	}
}

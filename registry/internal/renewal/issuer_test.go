package renewal

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// files writes the files of an authority.
func files(t *testing.T, a *authority.Authority) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(t.TempDir(), "issuer.crt"), filepath.Join(t.TempDir(), "issuer.key")
	for path, data := range map[string][]byte{cert: a.Pair().Cert, key: a.Pair().Key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func newIssuer(t *testing.T, life time.Duration) *Issuer {
	t.Helper()
	a, err := authority.NewIssuer("portolan", life)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := files(t, a)
	i, err := Open(Config{Cert: cert, Key: key, Lifetime: 24 * time.Hour, PerHour: 3, Log: kittest.Logger(t), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// presented returns a certificate as a caller presents it.
func presented(t *testing.T, who string, lifetime time.Duration, hosts ...string) *x509.Certificate {
	t.Helper()
	a, err := authority.New("portolan", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.ParsePath("portolan", who)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := a.Issue(authority.Request{ID: id, Hosts: hosts, Lifetime: lifetime})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.ParseCert(pair.Cert)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func requestFor(t *testing.T, key crypto.Signer, template x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// TestRenewedCertificate checks all fields of a renewed certificate, and of the next renewal.
func TestRenewedCertificate(t *testing.T) {
	i := newIssuer(t, 365*24*time.Hour)
	old := presented(t, "nodeagent/n1", time.Minute, "n1.example", "10.0.0.1", "fd00::1")
	for round := range 2 {
		key := newKey(t, elliptic.P256())
		chain, err := i.Renew(old, requestFor(t, key, x509.CertificateRequest{Subject: pkix.Name{CommonName: "operator"}, DNSNames: []string{"other.example"}}))
		if err != nil {
			t.Fatal(err)
		}
		cert, err := authority.ParseCert(chain)
		if err != nil {
			t.Fatal(err)
		}
		id, err := identity.FromCertificate(cert)
		if err != nil || id.Path() != "nodeagent/n1" || cert.Subject.CommonName != "nodeagent/n1" {
			t.Errorf("identity %s, subject %s: %v", id, cert.Subject, err)
		}
		if !slices.Equal(cert.DNSNames, []string{"n1.example"}) || len(cert.IPAddresses) != 2 || !cert.IPAddresses[0].Equal(old.IPAddresses[0]) || !cert.IPAddresses[1].Equal(old.IPAddresses[1]) {
			t.Errorf("hosts %v %v", cert.DNSNames, cert.IPAddresses)
		}
		if !key.PublicKey.Equal(cert.PublicKey) {
			t.Error("the key is not the one of the request")
		}
		if left := time.Until(cert.NotAfter); left < 23*time.Hour || left > 24*time.Hour {
			t.Errorf("it expires in %s", left)
		}
		if identity.Lineage(cert) != identity.Lineage(old) || round == 0 && identity.Lineage(cert) != old.SerialNumber.Text(16) {
			t.Errorf("lineage %s, of a certificate %s", identity.Lineage(cert), identity.Lineage(old))
		}
		old = cert
	}
}

func TestRefusals(t *testing.T) {
	good := requestFor(t, newKey(t, elliptic.P256()), x509.CertificateRequest{})
	forged := slices.Clone(good)
	forged[len(forged)-1] ^= 1
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	agent := presented(t, "nodeagent/n1", time.Minute)
	for name, c := range map[string]struct {
		presented *x509.Certificate
		request   []byte
		code      codes.Code
		want      string
	}{
		"expired":           {presented(t, "nodeagent/n1", -time.Second), good, codes.Unauthenticated, "has expired: portolan certs issue"},
		"operator":          {presented(t, "operator", time.Minute), good, codes.FailedPrecondition, "no certificates of the role operator"},
		"no request":        {agent, nil, codes.InvalidArgument, "no PKCS #10"},
		"too long":          {agent, make([]byte, maxRequest+1), codes.InvalidArgument, "may have 4096"},
		"another signature": {agent, forged, codes.InvalidArgument, "certificate_request"},
		"another kind":      {agent, requestFor(t, ed, x509.CertificateRequest{}), codes.InvalidArgument, "must be ECDSA P-256"},
		"another curve":     {agent, requestFor(t, newKey(t, elliptic.P384()), x509.CertificateRequest{}), codes.InvalidArgument, "must be ECDSA P-256"},
	} {
		_, err := newIssuer(t, time.Hour).Renew(c.presented, c.request)
		if apierr.Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s %q", name, err, c.code, c.want)
		}
	}
	none, err := Open(Config{Log: kittest.Logger(t), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Renew(agent, good); apierr.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "portolan certs issuer") {
		t.Errorf("without an issuer: %v", err)
	}
}

// TestRatePerIdentity checks that one identity cannot use up another one's renewals.
func TestRatePerIdentity(t *testing.T) {
	i := newIssuer(t, time.Hour)
	now := time.Now()
	i.now = func() time.Time { return now }
	request := requestFor(t, newKey(t, elliptic.P256()), x509.CertificateRequest{})
	n1, n2 := presented(t, "nodeagent/n1", time.Hour), presented(t, "nodeagent/n2", time.Hour)
	for range 3 {
		if _, err := i.Renew(n1, request); err != nil {
			t.Fatal(err)
		}
	}
	_, err := i.Renew(n1, request)
	if wait, ok := apierr.RetryAfter(err); apierr.Code(err) != codes.ResourceExhausted || !ok || wait > 20*time.Minute || !strings.Contains(err.Error(), "certificate-renewals allows 3 in an hour") {
		t.Errorf("the fourth in an hour: %v", err)
	}
	if _, err := i.Renew(n2, request); err != nil {
		t.Errorf("another node: %v", err)
	}
	now = now.Add(21 * time.Minute)
	if _, err := i.Renew(n1, request); err != nil {
		t.Errorf("later: %v", err)
	}
}

func TestIssuerFiles(t *testing.T) {
	main, err := authority.New("portolan", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := files(t, main)
	open := func(cert, key string) error {
		_, err := Open(Config{Cert: cert, Key: key, Log: kittest.Logger(t), Metrics: prometheus.NewRegistry()})
		return err
	}
	if err := open(cert, key); err == nil || !strings.Contains(err.Error(), "does not belong on a registry's machine") {
		t.Errorf("the authority as issuer: %v", err)
	}
	if err := open(cert, cert+"x"); err == nil || !strings.Contains(err.Error(), "issuer-cert, issuer-key") {
		t.Errorf("no key: %v", err)
	}
}

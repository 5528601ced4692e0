package attacks

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
)

// forge issues a certificate with the key of the issuer, without the checks of package authority. The key is on a
// registry's machine, so an intruder there can issue the same certificate.
func forge(t *testing.T, i *labtest.Installation, who string) tls.Certificate {
	t.Helper()
	issuer, err := tls.LoadX509KeyPair(filepath.Join(i.Certs, "issuer.crt"), filepath.Join(i.Certs, "issuer.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: who}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		URIs:     []*url.URL{{Scheme: "spiffe", Host: identity.DefaultTrustDomain, Path: "/" + who}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, issuer.Leaf, &key.PublicKey, issuer.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// callAs asks a daemon for its health with a certificate, without any check of our own.
func callAs(t *testing.T, cert tls.Certificate, at netip.AddrPort) error {
	t.Helper()
	conn, err := grpc.NewClient(at.String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13,
	})))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	return err
}

// TestIssuersKeyMakesNoOperator makes certificates of an operator and a viewer with the key that
// registries have. Every daemon must refuse them, and so must the command line. A certificate of a
// role that the issuer may give shows that the attack is made right.
func TestIssuersKeyMakesNoOperator(t *testing.T) {
	i := install(t)
	daemons := map[string]netip.AddrPort{"nodeagent": netip.AddrPortFrom(i.Nodes[0].Addresses[0], 7404)}
	for n, name := range []string{"registry", "allocator", "endpointctl", "dnssvc"} {
		daemons[name] = netip.AddrPortFrom(i.RegistryAt().Addr(), uint16(7400+n))
	}
	for name, at := range daemons {
		if err := callAs(t, forge(t, i, "dnssvc"), at); err != nil {
			t.Errorf("%s refuses a certificate of a daemon: %v", name, err)
		}
		for _, who := range []string{"operator", "operator/shop", "viewer", "nats", "postgres"} {
			if err := callAs(t, forge(t, i, who), at); status.Code(err) != codes.Unavailable { // the connection is closed, at one of several points
				t.Errorf("%s takes a certificate of %s from the issuer: %v", name, who, err)
			}
		}
		forged := forge(t, i, "operator")
		https := net.JoinHostPort(at.Addr().String(), fmt.Sprint(at.Port()+100))
		conn, err := tls.Dial("tcp", https, &tls.Config{Certificates: []tls.Certificate{forged}, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
		if err == nil {
			// The server looks at the certificate after our handshake. If it took it, it would wait.
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "bad certificate") {
			t.Errorf("HTTP of %s takes a certificate of an operator from the issuer: %v", name, err)
		}
	}
	forged := forge(t, i, "operator")
	key, err := x509.MarshalPKCS8PrivateKey(forged.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"forged.crt": {Type: "CERTIFICATE", Bytes: forged.Certificate[0]}, "forged.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := labtest.Command(t, "portolan", []string{
		"--server", i.RegistryAt().String(), "--tls-cert", filepath.Join(dir, "forged.crt"), "--tls-key", filepath.Join(dir, "forged.key"),
		"--tls-ca", filepath.Join(i.Certs, "ca.crt"), "get", "services",
	}).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "comes from the issuer of renewals") {
		t.Errorf("the command line: %v\n%s", err, out)
	}
}

// TestRenewalGivesNothingNew asks a registry for a certificate of another node, and for host names,
// with the certificate of a node agent. It gets its own identity and hosts.
func TestRenewalGivesNothingNew(t *testing.T) {
	i := install(t)
	conn := i.DialAs(i.Issue("nodeagent/n1", time.Hour), identity.Registry, i.RegistryAt())
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "nodeagent/n2", Organization: []string{"portolan"}, SerialNumber: "0"}, DNSNames: []string{"registry.example"},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}, EmailAddresses: []string{"operator@example"},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "portolan", Path: "/nodeagent/n2"}},
		// Basic constraints: an authority.
		ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := registryv1.NewCertificateServiceClient(conn).Renew(t.Context(), &registryv1.RenewRequest{CertificateRequest: request})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.ParseCert(answer.GetCertificateChain())
	if err != nil {
		t.Fatal(err)
	}
	if id, err := identity.FromCertificate(cert); err != nil || id.Path() != "nodeagent/n1" || cert.Subject.CommonName != "nodeagent/n1" {
		t.Errorf("it is %s, named %s: %v", id, cert.Subject, err)
	}
	if cert.IsCA || len(cert.DNSNames)+len(cert.IPAddresses)+len(cert.EmailAddresses) > 0 || cert.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("it is an authority: %v; hosts %v %v %v; usage %v", cert.IsCA, cert.DNSNames, cert.IPAddresses, cert.EmailAddresses, cert.KeyUsage)
	}
	if !key.PublicKey.Equal(cert.PublicKey) || !answer.GetNotAfter().AsTime().Equal(cert.NotAfter) {
		t.Error("it has another key or end than the answer says")
	}
	if own := i.Source(i.Issue("nodeagent/n1", time.Hour)).Certificate(); cert.Subject.SerialNumber == "0" || slices.Equal(own.Raw, cert.Raw) {
		t.Errorf("its lineage is %q", cert.Subject.SerialNumber)
	}
}

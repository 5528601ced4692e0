package dnssvc_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"

	"portolan.dev/dnssvc"
	"portolan.dev/dnssvc/internal/dnstest"
)

// tlsConfig returns a configuration with DNS over TLS and without a registry.
func tlsConfig(t *testing.T, host string) dnssvc.Config {
	t.Helper()
	cfg := testConfig(t, host)
	cfg.Registry, cfg.ListenTLS = kittest.Listen(t).Addr().String(), []string{host + ":0"}
	return cfg
}

// serial returns the serial number of the certificate with which a name server answers over TLS.
func serial(t *testing.T, addr string, roots *x509.CertPool) (string, error) {
	t.Helper()
	client := &dns.Client{Net: "tcp-tls", Timeout: dnstest.AnswerTimeout, TLSConfig: &tls.Config{RootCAs: roots}}
	conn, err := client.Dial(addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	reply, _, err := client.ExchangeWithConn(new(dns.Msg).SetQuestion("dns-version.cluster.local.", dns.TypeTXT), conn)
	if err != nil {
		return "", err
	}
	if len(reply.Answer) != 1 {
		return "", errors.New(dnstest.Describe(reply))
	}
	return conn.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// TestRenewedCertificateOfDNSOverTLS replaces the certificate for DNS clients while the name server
// runs. It does so for a certificate of its own and for the daemon's, which has a host name.
func TestRenewedCertificateOfDNSOverTLS(t *testing.T) {
	for i, own := range []bool{true, false} {
		t.Run(fmt.Sprintf("own files %v", own), func(t *testing.T) {
			t.Parallel()
			certs := kittest.NewCertificates(t)
			address := fmt.Sprintf("127.53.240.%d", 1+i)
			files := certs.Issue("dnssvc", time.Hour, address)
			cfg, host := tlsConfig(t, address), kittest.Host(t, rpc.Memory(), "nats://127.0.0.1:1")
			if own {
				cfg.ListenTLSCert, cfg.ListenTLSKey = files.Cert, files.Key
			} else {
				source, err := identity.Open(identity.Options{Files: files, Role: identity.DNSSvc, Log: host.Log, Every: time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				host.Identity = source
				kittest.Run(t, "certificate", source.Run)
			}
			d, err := dnssvc.New(t.Context(), cfg, host)
			if err != nil {
				t.Fatal(err)
			}
			kittest.Run(t, "dnssvc", d.Run)
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(certs.Authority.Pair().Cert)
			before, err := serial(t, d.TLSAddrs()[0], roots)
			if err != nil {
				t.Fatal(err)
			}
			certs.Issue("dnssvc", time.Hour, address)
			kittest.Eventually(t, "the renewed certificate", func() error {
				now, err := serial(t, d.TLSAddrs()[0], roots)
				if err == nil && now == before {
					err = errors.New("still the old one")
				}
				return err
			})
		})
	}
}

// TestUnusableCertificateOfDNSOverTLS checks that the daemon does not start with an unusable
// certificate, and that the error names the flag and the remedy.
func TestUnusableCertificateOfDNSOverTLS(t *testing.T) {
	certs := kittest.NewCertificates(t)
	good, expired := certs.Issue("dnssvc", time.Hour, "127.0.0.1"), certs.Issue("registry", -time.Minute, "127.0.0.1")
	nameless := certs.Issue("allocator", time.Hour)
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("no PEM\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		cert, key, want string
	}{
		"no file":         {junk + "x", good.Key, "listen-tls-cert: open "},
		"no key":          {good.Cert, junk + "x", "listen-tls-key: open "},
		"junk":            {junk, good.Key, "listen-tls-cert " + junk},
		"junk key":        {good.Cert, junk, "listen-tls-key " + junk + ": has no key in PEM"},
		"another key":     {good.Cert, nameless.Key, "cannot be used with the key " + nameless.Key},
		"expired":         {expired.Cert, expired.Key, "expired on "},
		"without a host":  {nameless.Cert, nameless.Key, "has no host name and no address"},
		"none, no daemon": {"", "", "there is no certificate: give listen-tls-cert"},
	} {
		cfg := tlsConfig(t, "127.0.0.1")
		cfg.ListenTLSCert, cfg.ListenTLSKey = tt.cert, tt.key
		_, err := dnssvc.New(t.Context(), cfg, kittest.Host(t, rpc.Memory(), "nats://127.0.0.1:1"))
		if !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %q", what, err, tt.want)
		}
	}
	host := kittest.Host(t, rpc.Memory(), "nats://127.0.0.1:1")
	host.Identity = certs.Source("dnssvc") // issued for daemons only
	if _, err := dnssvc.New(t.Context(), tlsConfig(t, "127.0.0.1"), host); err == nil || !strings.Contains(err.Error(), "portolan certs issue --host") {
		t.Errorf("the daemon's certificate without a host: %v", err)
	}
}

// TestSettingsOfDNSOverTLS checks that contradictory settings are refused before the start.
func TestSettingsOfDNSOverTLS(t *testing.T) {
	for want, change := range map[string]func(*dnssvc.Config){
		`listen-tls: "853": want host:port`:                func(c *dnssvc.Config) { c.ListenTLS = []string{"853"} },
		"listen-tls: a certificate is needed":              func(*dnssvc.Config) {},
		"listen-tls-cert, listen-tls-key: both are needed": func(c *dnssvc.Config) { c.ListenTLSCert = "x" },
		"listen-tls-cert: is of no use without listen-tls": func(c *dnssvc.Config) { c.ListenTLS, c.ListenTLSCert, c.ListenTLSKey = nil, "x", "y" },
		"": func(c *dnssvc.Config) { c.ListenTLSCert, c.ListenTLSKey = "x", "y" },
	} {
		cfg := testConfig(t, "127.0.0.1")
		cfg.ListenTLS = []string{":853"}
		change(&cfg)
		if err := cfg.Validate(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

package identity_test

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

func errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

func withTLS(config *tls.Config) grpc.DialOption {
	return grpc.WithTransportCredentials(credentials.NewTLS(config))
}

func sourceOf(t *testing.T, files identity.Files) *identity.Source {
	t.Helper()
	source, _, _ := open(t, identity.Options{Files: files})
	return source
}

// presented returns the serial number of the certificate that a server presents on a new
// connection.
func presented(t *testing.T, addr string, client *identity.Source) string {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, client.TLS(identity.Registry))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// TestRenewedCertificateIsUsed checks that new connections use a renewed certificate, and that
// existing ones are kept.
func TestRenewedCertificateIsUsed(t *testing.T) {
	certs := kittest.NewCertificates(t)
	client := certs.Source("operator")
	source, log, reg := open(t, identity.Options{Files: certs.Issue("registry", 10*time.Minute), Every: time.Millisecond})
	kittest.Run(t, "source", source.Run)
	s := serve(t, source)
	standing := dial(t, s.addr, client.DialOption(identity.Registry))
	if err := check(t, standing); err != nil {
		t.Fatal(err)
	}
	from := s.from[0] // address of the connection
	before, expiry := presented(t, s.addr, client), metric(t, reg, "portolan_tls_certificate_expiry_timestamp_seconds", "")

	certs.Issue("registry", 20*time.Minute)
	kittest.Eventually(t, "the new certificate", func() error {
		if presented(t, s.addr, client) == before {
			return errorf("still the old one\n%s", log)
		}
		return nil
	})
	if err := check(t, standing); err != nil {
		t.Errorf("the connection that was there: %v", err)
	}
	if last := s.from[len(s.from)-1]; last != from {
		t.Errorf("the client connected anew: %s, then %s", from, last)
	}
	if now := metric(t, reg, "portolan_tls_certificate_expiry_timestamp_seconds", ""); now <= expiry || now != float64(source.Expires().Unix()) {
		t.Errorf("expiry %v, then %v", expiry, now)
	}
	kittest.Eventually(t, "one reload", func() error { // it is counted after the certificate is in use
		if n := metric(t, reg, "portolan_tls_reloads_total", "taken"); n != 1 {
			return errorf("%v reloads", n)
		}
		return nil
	})
}

// TestUnusableNewFilesChangeNothing checks that unusable new files leave the old certificate in use
// and are logged once.
func TestUnusableNewFilesChangeNothing(t *testing.T) {
	certs := kittest.NewCertificates(t)
	client := certs.Source("operator")
	files := certs.Issue("registry", time.Hour)
	source, log, reg := open(t, identity.Options{Files: files, Every: time.Millisecond})
	s := serve(t, source)
	kittest.Run(t, "source", source.Run)
	before := presented(t, s.addr, client)
	cert, key := read(t, files.Cert), read(t, files.Key)
	other := certs.Issue("dnssvc", time.Hour)
	for n, c := range []struct {
		change func()
		want   string
	}{
		{func() { write(t, files.Cert, cert[:len(cert)/2]) }, "has no certificate in PEM"},
		{func() { write(t, files.Cert, read(t, other.Cert)) }, "does not go with"},
		{func() { certs.Issue("registry", -time.Minute) }, "expired on"},
		{func() { write(t, files.Cert, read(t, other.Cert)); write(t, files.Key, read(t, other.Key)) }, "is spiffe://portolan/dnssvc, and we are spiffe://portolan/registry"},
	} {
		c.change()
		kittest.Eventually(t, c.want, func() error {
			if !strings.Contains(log.String(), c.want) {
				return errorf("log:\n%s", log)
			}
			return nil
		})
		if now := presented(t, s.addr, client); now != before {
			t.Errorf("%s: the server shows another certificate", c.want)
		}
		if got := metric(t, reg, "portolan_tls_reloads_total", "refused"); got < float64(n+1) {
			t.Errorf("%s: %v refusals", c.want, got)
		}
		write(t, files.Cert, cert)
		write(t, files.Key, key)
	}
	for _, text := range []string{"has no certificate in PEM", "is spiffe://portolan/dnssvc, and we are"} {
		if n := strings.Count(log.String(), text); n != 1 {
			t.Errorf("%q was told %d times", text, n)
		}
	}
}

// TestExpiredMeansNotReady checks that a daemon with an expired certificate accepts no connections
// and is not ready, until it gets a new certificate.
func TestExpiredMeansNotReady(t *testing.T) {
	certs := kittest.NewCertificates(t)
	checks := health.New(kittest.Logger(t))
	source := openShort(t, certs, identity.Options{Every: time.Millisecond, Log: kittest.Logger(t), Health: checks})
	kittest.Run(t, "source", source.Run)
	kittest.Eventually(t, "the end of the certificate", func() error {
		if err := checks.Ready(); err == nil || !strings.Contains(err.Error(), "certificate: tls-cert") || !strings.Contains(err.Error(), "expired on") {
			return errorf("ready: %v", err)
		}
		return nil
	})
	certs.Issue("registry", time.Hour)
	kittest.Eventually(t, "health", checks.Ready)
}

// openShort opens a certificate that expires soon. It issues another one with a longer lifetime if the
// machine is so slow that the certificate expires before it is opened.
func openShort(t *testing.T, certs *kittest.Certificates, o identity.Options) *identity.Source {
	t.Helper()
	for lifetime := time.Second; ; lifetime *= 2 {
		o.Files = certs.Issue("registry", lifetime)
		source, err := identity.Open(o)
		if err == nil {
			return source
		}
		if lifetime > time.Minute {
			t.Fatal(err)
		}
	}
}

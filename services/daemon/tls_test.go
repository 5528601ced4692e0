package daemon_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

func tlsFlags(files identity.Files) []string {
	return []string{"-tls-cert=" + files.Cert, "-tls-key=" + files.Key, "-tls-ca=" + files.CA}
}

// startAs starts the sample daemon under the name of a real daemon, so that it has that daemon's
// role.
func startAs(t *testing.T, name string, args ...string) *child {
	t.Helper()
	t.Setenv(asDaemon, name)
	return start(t, args...)
}

// TestBadCertificatesEndTheStart checks that a daemon with an unusable certificate ends at once and
// says in one line how to fix it, because waiting would not help.
func TestBadCertificatesEndTheStart(t *testing.T) {
	certs, foreign := kittest.NewCertificates(t), kittest.NewCertificates(t)
	good, other := certs.Issue("registry", time.Hour), certs.Issue("dnssvc", time.Hour)
	mixed, elsewhere := good, good
	mixed.Key = other.Key
	elsewhere.CA = foreign.CA()
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"not all", []string{"-tls-cert=" + good.Cert}, "tls-cert: given without tls-key and tls-ca; TLS needs all three"},
		{"missing", []string{"-tls-cert=/nowhere", "-tls-key=" + good.Key, "-tls-ca=" + good.CA}, "tls-cert: open /nowhere: no such file or directory"},
		{"another's", tlsFlags(other), "is spiffe://portolan/dnssvc, not of the role registry: make one by portolan certs issue registry"},
		{"key", tlsFlags(mixed), "does not go with tls-cert"},
		{"foreign", tlsFlags(elsewhere), "was not issued by the authority in tls-ca"},
		{"expired", tlsFlags(certs.Issue("allocator", -time.Minute)), "expired on "},
		{"trust domain", append(tlsFlags(good), "-trust-domain=prod"), "not of the trust domain prod"},
		{"all addresses", []string{"-addr=:7400"}, "addr: other machines reach :7400, and without TLS they may do everything"},
		{"another address", []string{"-addr=192.0.2.1:7400"}, "or listen on 127.0.0.1, or accept it by insecure"},
		{"a name", []string{"-addr=registry:7400"}, "addr: other machines reach registry:7400"},
		{"http at all addresses", []string{"-http-addr=:7500"}, "http-addr: other machines reach :7500, and without TLS they may read everything"},
		{"debug at another address", append(tlsFlags(good), "-insecure", "-debug-addr=192.0.2.1:7600"), "debug-addr: other machines reach 192.0.2.1:7600"},
	}
	for _, tt := range tests {
		code, rest := startAs(t, "registry", tt.args...).end(t)
		if code != app.ExitConfig || !strings.Contains(rest, tt.want) || strings.Count(strings.TrimPrefix(rest, "registry: invalid configuration: "), "\n") != 1 {
			t.Errorf("%s: exit code %d and\n%s\nwant %q in one line", tt.name, code, rest, tt.want)
		}
	}
	for _, args := range [][]string{
		{"-addr=:7400", "-insecure"}, {"-http-addr=:7500", "-insecure"}, append(tlsFlags(good), "-http-addr=:7500"), {"-addr=[::1]:7400"}, {"-addr=127.0.0.9:7400"}, {"-addr=localhost:7400"}, append(tlsFlags(good), "-addr=:7400"),
	} {
		if code, rest := startAs(t, "registry", append(args, "-check-config")...).end(t); code != app.ExitOK {
			t.Errorf("%v: exit code %d\n%s", args, code, rest)
		}
	}
}

// TestDaemonTakesANewCertificate checks that a running daemon reloads its certificate, and that its
// metrics show it.
func TestDaemonTakesANewCertificate(t *testing.T) {
	certs := kittest.NewCertificates(t)
	files := certs.Issue("registry", time.Hour)
	c := startAs(t, "registry", tlsFlags(files)...)
	starting := c.event(t, "starting")
	if starting["tls"] != true {
		t.Errorf("log line %v", starting)
	}
	metrics := fmt.Sprint("http://", starting["http"], "/metrics")
	c.event(t, "running")
	if _, text := get(t, metrics); !strings.Contains(text, "portolan_tls_certificate_expiry_timestamp_seconds") || !strings.Contains(text, `portolan_tls_reloads_total{outcome="taken"} 0`) {
		t.Errorf("metrics:\n%s", text)
	}
	certs.Issue("registry", 2*time.Hour)
	if line := c.event(t, "new certificate taken"); line["id"] != "spiffe://portolan/registry" {
		t.Errorf("log line %v", line)
	}
	if _, text := get(t, metrics); !strings.Contains(text, `portolan_tls_reloads_total{outcome="taken"} 1`) {
		t.Errorf("metrics:\n%s", text)
	}
	stop(t, c)
}

// TestNATSWithoutTLSIsToldOf checks that a daemon with a certificate logs that the NATS server does
// not use TLS. The daemon keeps trying, because the server may be reconfigured.
func TestNATSWithoutTLSIsToldOf(t *testing.T) {
	_, url := kittest.NATS(t)
	log := &lines{}
	source := kittest.NewCertificates(t).Source("registry")
	nc, err := daemon.NATS("registry", daemon.Common{NATSURL: url, NATSPrefix: "portolan"}, log.logger(), source)("relay")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	kittest.Eventually(t, "a line in the log", func() error {
		if text := log.String(); !strings.Contains(text, "nats not connected") || !strings.Contains(text, "the NATS server does not speak TLS") {
			return errors.New(text)
		}
		return nil
	})
	if nc.IsClosed() {
		t.Error("it has given up")
	}
}

// TestNATSThatIsAwayIsToldOf checks that a missing server is logged once, and that the daemon
// connects once there is a server.
func TestNATSThatIsAwayIsToldOf(t *testing.T) {
	srv, _ := kittest.NATS(t)
	gate := newGate(t, srv.Addr().String())
	log := &lines{}
	nc, err := daemon.NATS("registry", daemon.Common{NATSURL: "nats://" + gate.addr, NATSPrefix: "portolan"}, log.logger(), nil)("relay")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	kittest.Eventually(t, "a line in the log", func() error {
		if !strings.Contains(log.String(), "nats not connected, still trying") {
			return errors.New(log.String())
		}
		return nil
	})
	gate.unlock()
	kittest.Eventually(t, "the connection", func() error {
		if !strings.Contains(log.String(), "nats connected") {
			return errors.New(log.String())
		}
		return nil
	})
}

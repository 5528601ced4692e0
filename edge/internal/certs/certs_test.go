package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/kittest"
)

// TestChoiceByName checks which certificate a client gets for a name.
func TestChoiceByName(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	setSecrets(s, map[string]pair{
		"first":   newPair(t, "first", false, later(), "first.example"),
		"web":     newPair(t, "web", false, later(), "web.example", "www.web.example"),
		"wild":    newPair(t, "wild", false, later(), "*.web.example"),
		"expired": newPair(t, "expired", false, time.Now().Add(-time.Hour), "renewed.example"),
		"renewed": newPair(t, "renewed", false, later(), "renewed.example"),
		"both":    newPair(t, "both as a secret", false, later(), "both.example"),
	})
	newPair(t, "both as files", false, later(), "both.example").write(t, dir, "both")
	newPair(t, "files", false, later(), "files.example").write(t, dir, "files")
	s.readFolder()
	refs := []balancer.CertificateRef{secretRef("first"), secretRef("missing"), secretRef("wild"), secretRef("web"), secretRef("expired"), secretRef("renewed")}
	for _, test := range []struct {
		refs       []balancer.CertificateRef
		name, want string
	}{
		{refs, "web.example", "web"},
		{refs, "WWW.Web.example", "web"},
		{refs, "a.web.example", "wild"},
		{refs, "a.b.web.example", "first"},
		{refs, "other.example", "first"},
		{refs, "", "first"},
		{refs, "renewed.example", "renewed"},
		{[]balancer.CertificateRef{secretRef("expired")}, "renewed.example", "expired"},
		{[]balancer.CertificateRef{secretRef("missing"), secretRef("web")}, "other.example", "web"},
		{[]balancer.CertificateRef{either("both")}, "", "both as a secret"},
		{[]balancer.CertificateRef{fileRef("both")}, "", "both as files"},
		{[]balancer.CertificateRef{either("files")}, "", "files"},
		{[]balancer.CertificateRef{secretRef("files")}, "", "remote error: tls: unrecognized name"},
		{nil, "web.example", "remote error: tls: unrecognized name"},
	} {
		addr := listen(t, s.Server("shop", withCerts(test.refs...), false))
		if got := shown(addr, test.name, nil); got != test.want {
			t.Errorf("%v for %q: %s, want %s", test.refs, test.name, got, test.want)
		}
	}
	addr := listen(t, s.Server("other", withCerts(secretRef("web")), false))
	if got := shown(addr, "web.example", nil); !strings.Contains(got, "unrecognized name") {
		t.Errorf("a service of another namespace has the certificate %q", got)
	}
}

// TestChoiceByAlgorithm serves a certificate with an RSA key and one with an ECDSA key to clients that
// know one of the two algorithms.
func TestChoiceByAlgorithm(t *testing.T) {
	s := newStore(t, "")
	setSecrets(s, map[string]pair{"rsa": newPair(t, "rsa", true, later(), "web.example"), "ecdsa": newPair(t, "ecdsa", false, later(), "web.example")})
	ecdsaOnly := func(c *tls.Config) {
		c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	}
	rsaOnly := func(c *tls.Config) {
		c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	}
	for _, order := range [][]balancer.CertificateRef{{secretRef("rsa"), secretRef("ecdsa")}, {secretRef("ecdsa"), secretRef("rsa")}} {
		addr := listen(t, s.Server("shop", withCerts(order...), false))
		for want, change := range map[string]func(*tls.Config){order[0].Name: nil, "ecdsa": ecdsaOnly, "rsa": rsaOnly} {
			for _, name := range []string{"web.example", "other.example", ""} {
				if got := shown(addr, name, change); got != want && !(change == nil && got == order[0].Name) {
					t.Errorf("%v for %q: %s, want %s", order, name, got, want)
				}
			}
		}
	}
}

// TestProtocols checks the protocols that ALPN negotiates.
func TestProtocols(t *testing.T) {
	s := newStore(t, "")
	setSecrets(s, map[string]pair{"web": newPair(t, "web", false, later())})
	for _, test := range []struct {
		http bool
		ask  []string
		want string
	}{{true, []string{"h2", "http/1.1"}, "h2"}, {true, []string{"http/1.1"}, "http/1.1"}, {true, nil, ""}, {false, []string{"h2"}, ""}} {
		addr := listen(t, s.Server("shop", withCerts(secretRef("web")), test.http))
		state, err := dial(addr, &tls.Config{InsecureSkipVerify: true, NextProtos: test.ask})
		if err != nil || state.NegotiatedProtocol != test.want {
			t.Errorf("http %v, asked for %q: %q, %v", test.http, test.ask, state.NegotiatedProtocol, err)
		}
	}
}

// TestReplacedUnderLoad replaces a Secret and files all the time while clients connect. No handshake
// fails, and a connection from the beginning lives.
func TestReplacedUnderLoad(t *testing.T) {
	dir := t.TempDir()
	pairs := []pair{newPair(t, "0", false, later(), "web.example"), newPair(t, "1", true, later(), "web.example")}
	pairs[0].write(t, dir, "web")
	s, err := New(Options{Dir: dir, Log: kittest.Logger(t), Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "store", s.Run)
	setSecrets(s, map[string]pair{"web": pairs[0]})
	addrs := []string{
		listen(t, s.Server("shop", withCerts(secretRef("web")), false)), listen(t, s.Server("shop", withCerts(fileRef("web")), false)),
	}
	long, err := tls.Dial("tcp", addrs[0], &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()

	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var seen [2][2]atomic.Int64 // by address and certificate
	for i, addr := range addrs {
		for range 3 {
			clients.Go(func() {
				for ctx.Err() == nil {
					got := shown(addr, "web.example", nil)
					if got != "0" && got != "1" {
						t.Errorf("a client of %s: %s", addr, got)
						return
					}
					seen[i][got[0]-'0'].Add(1)
				}
			})
		}
	}
	n := 0
	kittest.Eventually(t, "clients to see both certificates of both ports many times", func() error {
		n++
		setSecrets(s, map[string]pair{"web": pairs[n%2]})
		pairs[n%2].write(t, dir, "web")
		for i := range seen {
			if seen[i][0].Load() < 25 || seen[i][1].Load() < 25 {
				return fmt.Errorf("port %d: %d and %d times", i, seen[i][0].Load(), seen[i][1].Load())
			}
		}
		return nil
	})
	stop()
	clients.Wait()
	if err := echo(long); err != nil {
		t.Errorf("the connection from before %d replacements: %v", n, err)
	}
}

// TestResumption resumes a session after the certificate was replaced, after the settings of the service
// changed, and after a new key of tickets; not after as many new keys as there are, and not at another
// service.
func TestResumption(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			s := newStore(t, "")
			setSecrets(s, map[string]pair{"web": newPair(t, "web", false, later()), "other": newPair(t, "other", false, later())})
			config := &tls.Config{
				ServerName: "web.example", InsecureSkipVerify: true, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(9),
			}
			resumed := func(what, addr string, want bool) {
				t.Helper()
				state, err := dial(addr, config)
				if err != nil || state.DidResume != want {
					t.Errorf("%s: resumed %v, want %v; %v", what, state.DidResume, want, err)
				}
			}
			settings := withCerts(secretRef("web"))
			addr := listen(t, s.Server("shop", settings, false))
			resumed("the first connection", addr, false)
			resumed("the second connection", addr, true)
			setSecrets(s, map[string]pair{"web": newPair(t, "new", false, later()), "other": newPair(t, "other", false, later())})
			resumed("after a new certificate", addr, true)
			again := *settings
			again.IdleTimeout = time.Hour
			addr = listen(t, s.Server("shop", &again, false))
			resumed("after new settings", addr, true)
			s.tickets.rotate()
			resumed("after a new key", addr, true)
			for range ticketKeys {
				s.tickets.rotate()
			}
			resumed("after as many new keys as there are", addr, false)
			resumed("at another service", listen(t, s.Server("shop", withCerts(secretRef("other")), false)), false)
		})
	}
}

// TestFolder replaces files in the ways in which programs do, and checks the served certificates and the problems.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	old, next := newPair(t, "old", false, later()), newPair(t, "next", false, later())
	s := newStore(t, dir)
	settings := withCerts(fileRef("web"))
	addr := listen(t, s.Server("shop", settings, false))
	const none = "remote error: tls: unrecognized name"
	for _, step := range []struct {
		what          string
		do            func()
		changed       bool
		shown, reason string
	}{
		{"nothing", func() {}, false, none, "there is none"},
		{"a certificate without its key", func() { writeFile(t, dir+"/web.crt", old.cert) }, true, none, "has no key"},
		{"its key", func() { writeFile(t, dir+"/web.key", old.key) }, true, "old", ""},
		{"the same", func() { old.write(t, dir, "web") }, false, "old", ""},
		{"a new certificate, not yet its key", func() { writeFile(t, dir+"/web.crt", next.cert) }, false, "old", ""},
		{"now its key", func() { writeFile(t, dir+"/web.key", next.key) }, true, "next", ""},
		{"half a certificate", func() { writeFile(t, dir+"/web.crt", old.cert[:99]) }, false, "next", ""},
		{"still half of it", func() {}, true, "next", "new files are not taken"},
		{"still", func() {}, false, "next", "new files are not taken"},
		{"as before", func() { next.write(t, dir, "web") }, true, "next", ""},
		{"no key", func() { writeFile(t, dir+"/web.key", nil) }, false, "next", ""},
		{"still no key", func() {}, true, "next", "has no key"},
		{"nothing again", func() { writeFile(t, dir+"/web.crt", nil) }, true, none, "there is none"},
		{"rubbish", func() { pair{[]byte("x"), []byte("y")}.write(t, dir, "web") }, true, none, "cannot be used"},
		{"rubbish still", func() {}, true, none, "cannot be used"},
		{"rubbish for good", func() {}, false, none, "cannot be used"},
		{"a certificate after all", func() { old.write(t, dir, "web") }, true, "old", ""},
	} {
		step.do()
		if changed := s.readFolder(); changed != step.changed {
			t.Errorf("%s: changed %v", step.what, changed)
		}
		if got := shown(addr, "", nil); got != step.shown {
			t.Errorf("%s: served %q, want %q", step.what, got, step.shown)
		}
		problems := strings.Join(s.Problems("shop", settings), "; ")
		if !strings.Contains(problems, step.reason) || (problems == "") != (step.reason == "") {
			t.Errorf("%s: problems %q, want %q", step.what, problems, step.reason)
		}
	}
	s.folder.dir += "/none"
	if s.readFolder() || shown(addr, "", nil) != "old" {
		t.Error("a folder that cannot be read takes its certificates away")
	}
	if _, err := New(Options{Dir: s.folder.dir, Log: kittest.Logger(t)}); err == nil || !strings.Contains(err.Error(), "certs-dir") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestProblems(t *testing.T) {
	dir := t.TempDir()
	newPair(t, "ca", false, later()).write(t, dir, "ca")
	s := newStore(t, dir)
	expired := newPair(t, "x", false, time.Now().Add(-time.Hour))
	s.SetSecrets([]*corev1.Secret{
		newPair(t, "web", false, later()).secret("web", nil), expired.secret("expired", nil), pair{cert: []byte("x")}.secret("broken", nil),
	})
	ca := fileRef("ca")
	noCA := secretRef("web")
	for _, test := range []struct {
		settings balancer.Settings
		want     []string // parts of them
	}{
		{balancer.Settings{}, nil},
		{balancer.Settings{BackendCA: &ca}, nil},
		{balancer.Settings{BackendCA: &noCA}, []string{"certificates of authorities secret/web: there are none"}},
		{balancer.Settings{TLS: true}, []string{"no certificate can be used"}},
		{balancer.Settings{TLS: true, Certificates: []balancer.CertificateRef{secretRef("web")}, TLSPolicy: "none"}, []string{`the TLS policy "none" is not known; intermediate is used`}},
		{*withCerts(secretRef("web"), secretRef("gone"), secretRef("expired"), secretRef("broken")), []string{
			"certificate secret/gone: there is none", "certificate secret/expired: expired on 20", "certificate secret/broken: cannot be used",
		}},
		{*withCerts(either("gone")), []string{"certificate gone: there is none", "no certificate can be used"}},
	} {
		got := s.Problems("shop", &test.settings)
		if len(got) != len(test.want) || slices.ContainsFunc(test.want, func(part string) bool { return !strings.Contains(strings.Join(got, "\n"), part) }) {
			t.Errorf("%+v: %q, want %q", test.settings, got, test.want)
		}
	}
}

// TestBackends verifies backends by certificates of authorities that change.
func TestBackends(t *testing.T) {
	dir := t.TempDir()
	backend, stranger := newPair(t, "backend", false, later(), "backend.example"), newPair(t, "stranger", false, later(), "backend.example")
	served := newStore(t, "")
	setSecrets(served, map[string]pair{"web": backend})
	addr := listen(t, served.Server("shop", withCerts(secretRef("web")), false))

	s := newStore(t, dir)
	ca := either("ca")
	client := func(ref *balancer.CertificateRef, name string) *tls.Config {
		return s.Client("shop", &balancer.Settings{BackendProtocol: balancer.BackendSSL, BackendCA: ref, BackendServerName: name})
	}
	if _, err := dial(addr, client(nil, "")); err != nil {
		t.Errorf("without verification: %v", err)
	}
	named, unnamed, misnamed := client(&ca, "backend.example"), client(&ca, ""), client(&ca, "other.example")
	expect := func(what string, config *tls.Config, want string) {
		t.Helper()
		_, err := dial(addr, config)
		if text := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	expect("without authorities", unnamed, "are not there")
	writeFile(t, dir+"/ca.crt", backend.cert)
	s.readFolder()
	expect("named", named, "")
	expect("named again", named, "")
	expect("unnamed", unnamed, "")
	expect("misnamed", misnamed, "not other.example")
	writeFile(t, dir+"/ca.crt", stranger.cert)
	s.readFolder()
	expect("of another authority", named, "unknown authority")
	s.SetSecrets([]*corev1.Secret{stranger.secret("ca", backend.cert)})
	expect("a secret before the file", named, "")
	if config := s.Client("shop", &balancer.Settings{BackendProtocol: balancer.BackendHTTP}); config != nil {
		t.Error("TLS to backends that speak HTTP")
	}
	for _, protocol := range []balancer.BackendProtocol{balancer.BackendHTTPS, balancer.BackendSSL} {
		if s.Client("shop", &balancer.Settings{BackendProtocol: protocol}) == nil {
			t.Errorf("no TLS to backends of %v", protocol)
		}
	}
}

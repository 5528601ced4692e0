package daemon_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// openTLS returns TLS settings of a client of a registry, with the given certificate.
func openTLS(t *testing.T, files identity.Files) *tls.Config {
	t.Helper()
	source, err := identity.Open(identity.Options{Files: files, Log: kittest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	return source.TLS(identity.Registry)
}

// send sends a GET request with a Host header and returns the status, or the error of the
// connection.
func send(t *testing.T, client *http.Client, url, host string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// portOf returns the port of a daemon that listens for HTTP at all addresses.
func portOf(t *testing.T, c *child) string {
	t.Helper()
	_, port, err := net.SplitHostPort(c.event(t, "starting")["http"].(string))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestHTTPOffLoopbackIsMutualTLS checks which roles may read metrics and health at an address that other
// machines reach.
func TestHTTPOffLoopbackIsMutualTLS(t *testing.T) {
	certs := kittest.NewCertificates(t)
	c := startAs(t, "registry", append(tlsFlags(certs.Issue("registry", time.Hour, "registry1")), "-http-addr=:0")...)
	port := portOf(t, c)
	url := "https://127.0.0.1:" + port + "/readyz"
	c.event(t, "running")

	for who, want := range map[string]int{
		"operator": 200, "viewer": 200, "monitor": 200, "registry": 200,
		"dnssvc": 403, "nodeagent/n1": 403, "workload/n1": 403,
	} {
		files := certs.Issue(who, time.Hour, "registry1")
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: openTLS(t, files), DisableKeepAlives: true}}
		if code, body, err := send(t, client, url, ""); err != nil || code != want {
			t.Errorf("%s: %d %q %v, want %d", who, code, body, err, want)
		}
	}

	if code, body := get(t, "http://127.0.0.1:"+port+"/readyz"); code != http.StatusBadRequest || !strings.Contains(body, "HTTPS") {
		t.Errorf("without TLS: %d %q", code, body)
	}
	foreign := kittest.NewCertificates(t).Issue("operator", time.Hour)
	for name, config := range map[string]*tls.Config{
		"no certificate": {InsecureSkipVerify: true}, // the server refuses first
		"foreign":        withoutVerification(t, foreign),
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		if code, body, err := send(t, client, url, ""); err == nil {
			t.Errorf("%s: %d %q", name, code, body)
		}
	}
	// One line a second is logged, and each refusal counts.
	if line := c.event(t, "connection refused"); !strings.HasPrefix(fmt.Sprint(line["peer"]), "127.0.0.1:") {
		t.Errorf("log line %v", line)
	}
	monitor := &http.Client{Transport: &http.Transport{TLSClientConfig: openTLS(t, certs.Issue("monitor", time.Hour)), DisableKeepAlives: true}}
	kittest.Eventually(t, "three refusals", func() error {
		_, body, err := send(t, monitor, "https://127.0.0.1:"+port+"/metrics", "")
		if err == nil && !strings.Contains(body, "portolan_tls_refused_connections_total 3") {
			err = errors.New(body)
		}
		return err
	})
	stop(t, c)
}

// withoutVerification returns TLS settings of a client that shows a certificate and accepts every
// server.
func withoutVerification(t *testing.T, files identity.Files) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}} // the server refuses first
}

// TestExpiredCertificateReadsNoMore checks that requests on an open connection are refused once the
// client's certificate has expired.
func TestExpiredCertificateReadsNoMore(t *testing.T) {
	certs := kittest.NewCertificates(t)
	c := startAs(t, "registry", append(tlsFlags(certs.Issue("registry", time.Hour)), "-http-addr=:0")...)
	url := "https://127.0.0.1:" + portOf(t, c) + "/readyz"
	c.event(t, "running")
	config := openTLS(t, certs.Issue("monitor", 2*time.Second))
	dials := 0
	client := &http.Client{Transport: &http.Transport{DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return (&tls.Dialer{Config: config}).DialContext(ctx, network, addr)
	}}}
	if code, body, err := send(t, client, url, ""); err != nil || code != http.StatusOK {
		t.Fatal(code, body, err)
	}
	kittest.Eventually(t, "the refusal", func() error {
		code, body, err := send(t, client, url, "")
		if err != nil {
			t.Fatal(err)
		}
		if code != http.StatusUnauthorized || !strings.Contains(body, "expired at") {
			return fmt.Errorf("%d %q", code, body)
		}
		return nil
	})
	if dials != 1 {
		t.Errorf("%d connections; the first one was to be refused", dials)
	}
	stop(t, c)
}

// TestReadyOverTLS checks that the command ready asks with the daemon's certificate.
func TestReadyOverTLS(t *testing.T) {
	certs := kittest.NewCertificates(t)
	flags := tlsFlags(certs.Issue("registry", time.Hour))
	c := startAs(t, "registry", append(flags, "-http-addr=:0")...)
	addr := ":" + portOf(t, c)
	c.event(t, "running")
	if code, rest := startAs(t, "registry", append([]string{"ready", "-http-addr=" + addr}, flags...)...).end(t); code != app.ExitOK {
		t.Errorf("exit code %d, %s", code, rest)
	}
	other := tlsFlags(certs.Issue("dnssvc", time.Hour))
	if code, rest := startAs(t, "dnssvc", append([]string{"ready", "-http-addr=" + addr}, other...)...).end(t); code != app.ExitError || !strings.Contains(rest, "is not of the role dnssvc") {
		t.Errorf("another daemon: exit code %d, %s", code, rest)
	}
	stop(t, c)
}

// TestWatchdogOverTLS checks that the daemon reaches itself if its address requires a certificate.
func TestWatchdogOverTLS(t *testing.T) {
	s := supervise(t, "100000")
	c := startAs(t, "registry", append(tlsFlags(kittest.NewCertificates(t).Issue("registry", time.Hour)), "-http-addr=:0")...)
	s.hear(t, "WATCHDOG=1")
	stop(t, c)
}

// TestForeignHostIsRefused checks that a request with a foreign Host header is refused, as a browser
// sends it after its resolver was told that the foreign name is this machine.
func TestForeignHostIsRefused(t *testing.T) {
	certs := kittest.NewCertificates(t)
	files := certs.Issue("registry", time.Hour, "registry1", "192.0.2.7")
	plain := startAs(t, "registry", append(tlsFlags(files), "-debug-addr=127.0.0.1:0")...)
	starting := plain.event(t, "starting")
	secure := startAs(t, "registry", append(tlsFlags(files), "-http-addr=:0")...)
	securePort := portOf(t, secure)
	monitor := &http.Client{Transport: &http.Transport{TLSClientConfig: openTLS(t, certs.Issue("monitor", time.Hour)), DisableKeepAlives: true}}
	metrics, debug := fmt.Sprint("http://", starting["http"], "/metrics"), fmt.Sprint("http://", starting["debug"], "/debug/loglevel")
	for _, tt := range []struct {
		client    *http.Client
		url, host string
		want      int
	}{
		{http.DefaultClient, metrics, "", 200},
		{http.DefaultClient, metrics, "localhost", 200},
		{http.DefaultClient, metrics, "LOCALHOST:7500", 200},
		{http.DefaultClient, metrics, "[::1]:7500", 200},
		{http.DefaultClient, metrics, "registry1:7500", 200},
		{http.DefaultClient, metrics, "evil.example", 421},
		{http.DefaultClient, metrics, "evil.example:7500", 421},
		{http.DefaultClient, metrics, "127.0.0.1.evil.example", 421},
		{http.DefaultClient, metrics, "192.0.2.1", 421},
		{http.DefaultClient, debug, "localhost", 200},
		{http.DefaultClient, debug, "evil.example", 421},
		{http.DefaultClient, debug, "registry1", 421},
		{monitor, "https://127.0.0.1:" + securePort + "/metrics", "", 200},
		{monitor, "https://127.0.0.1:" + securePort + "/metrics", "registry1:7500", 200},
		{monitor, "https://127.0.0.1:" + securePort + "/metrics", "192.0.2.7:7500", 200},
		{monitor, "https://127.0.0.1:" + securePort + "/metrics", "evil.example", 421},
	} {
		code, body, err := send(t, tt.client, tt.url, tt.host)
		if err != nil || code != tt.want || code == 421 && !strings.Contains(body, "is no name of this server") {
			t.Errorf("%s with Host %q: %d %.100q %v, want %d", tt.url, tt.host, code, body, err, tt.want)
		}
	}
	stop(t, plain)
	stop(t, secure)
}

// TestHeadersAreBounded checks that the server reads no more than a few kilobytes of headers.
func TestHeadersAreBounded(t *testing.T) {
	c := start(t)
	addr := fmt.Sprint(c.event(t, "starting")["http"])
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: %s\r\nX: %s\r\n\r\n", addr, strings.Repeat("x", 64<<10))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %s", resp.Status)
	}
	stop(t, c)
}

// TestDebugSocket checks that the debug socket belongs to the daemon's user alone, that it replaces
// the socket of a killed daemon, and that it goes with the daemon.
func TestDebugSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "debug.sock")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	killed := start(t, "-debug-addr=unix:"+path)
	killed.event(t, "running")
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.end(t)

	c := start(t, "-debug-addr=unix:"+path)
	if starting := c.event(t, "starting"); starting["debug"] != "unix:"+path {
		t.Errorf("log line %v", starting)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != os.ModeSocket|0o600 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		t.Errorf("mode %v", info.Mode())
	}
	if code, body, err := send(t, client, "http://localhost/debug/loglevel", ""); err != nil || code != 200 || body != "info\n" {
		t.Errorf("%d %q %v", code, body, err)
	}
	if code, body, err := send(t, client, "http://localhost/metrics", ""); err != nil || code != 404 {
		t.Errorf("metrics: %d %.100q %v", code, body, err)
	}
	c.event(t, "running")
	stop(t, c)
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

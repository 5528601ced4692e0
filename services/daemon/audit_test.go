package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/kittest"
)

// put sends text to the log level of a daemon and returns the status.
func put(t *testing.T, client *http.Client, text string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost/debug/loglevel", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// TestHTTPIsAudited sends requests that are refused or change the log level, and others.
func TestHTTPIsAudited(t *testing.T) {
	dir := t.TempDir()
	path, socket := filepath.Join(dir, "audit.log"), filepath.Join(dir, "debug.sock")
	certs := kittest.NewCertificates(t)
	c := startAs(t, "registry", append(tlsFlags(certs.Issue("registry", time.Hour)), "-http-addr=:0", "-audit-log="+path, "-debug-addr=unix:"+socket)...)
	url := "https://127.0.0.1:" + portOf(t, c) + "/metrics"
	c.event(t, "running")
	client := func(who string) *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: openTLS(t, certs.Issue(who, time.Hour)), DisableKeepAlives: true}}
	}
	for _, request := range []struct {
		who, host string
		want      int
	}{{"monitor", "", 200}, {"monitor", "evil.example", 421}, {"nodeagent/n1", "", 403}} {
		if code, _, err := send(t, client(request.who), url, request.host); err != nil || code != request.want {
			t.Errorf("%+v: %d, %v", request, code, err)
		}
	}
	debug := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	if code := put(t, debug, "debug"); code != 200 {
		t.Errorf("the log level: %d", code)
	}
	if code := put(t, debug, "hush-4711"); code != 400 {
		t.Errorf("a wrong log level: %d", code)
	}
	stop(t, c)

	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "hush") {
		t.Errorf("the body of a request is in the log:\n%s", content)
	}
	var got []string
	for text := range strings.Lines(string(content)) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		peer, _, _ := strings.Cut(e.Peer, ":")
		got = append(got, fmt.Sprintf("%s|%t|%s|%s|%s|%.45s", e.Identity, e.Serial != "", peer, e.Method, e.Code, e.Reason))
	}
	want := []string{
		`monitor|true|127.0.0.1|GET /metrics|PERMISSION_DENIED|"evil.example" is no name of this server: use`,
		"nodeagent/n1|true|127.0.0.1|GET /metrics|PERMISSION_DENIED|role nodeagent (spiffe://portolan/nodeagent/n",
		"|false|unix socket|PUT /debug/loglevel|OK|",
		"|false|unix socket|PUT /debug/loglevel|INVALID_ARGUMENT|",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAuditLogThatCannotBeOpened starts a daemon with an audit log in a folder that does not exist.
func TestAuditLogThatCannotBeOpened(t *testing.T) {
	if code, rest := start(t, "-audit-log="+filepath.Join(t.TempDir(), "none", "audit.log")).end(t); code != app.ExitError || !strings.Contains(rest, "audit-log: open") {
		t.Errorf("exit code %d, %s", code, rest)
	}
}

func TestAuditSettings(t *testing.T) {
	for name, settings := range map[string]daemon.Audit{
		"audit-log: ":           {AuditLog: "audit.log", AuditLogMaxBytes: 1},
		"audit-log-max-bytes: ": {AuditLog: "stdout"},
		"audit-log-keep: ":      {AuditLog: "/audit.log", AuditLogMaxBytes: 1, AuditLogKeep: -1},
	} {
		if err := settings.Validate(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%+v: %v, want %s", settings, err, name)
		}
	}
	for _, settings := range []daemon.Audit{{}, {AuditLog: "stdout", AuditLogMaxBytes: 1}, {AuditLog: "/audit.log", AuditLogMaxBytes: 64, AuditLogKeep: 0}} {
		if err := settings.Validate(); err != nil {
			t.Errorf("%+v: %v", settings, err)
		}
	}
}

package attacks

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// password is the password of the registry's store. It must not be found anywhere.
const password = "hush-4711"

// TestHTTP attacks the HTTP listeners of the daemons from another machine, with a browser's requests
// and with the certificates of a node and of a workload, and looks for the store's password.
func TestHTTP(t *testing.T) {
	cluster := kittest.NewCluster(t)
	debug := filepath.Join(t.TempDir(), "debug.sock")
	i := labtest.Install(t, labtest.Options{
		Secured: true,
		Store:   cluster.URL("portolan", password, createDatabase(t, cluster)),
		Nodes:   []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}},
		Flags:   map[string][]string{"registry": {"-debug-addr", "unix:" + debug}},
	})
	at := fmt.Sprintf("%s:7500", i.RegistryAt().Addr())
	t.Run("plain HTTP", func(t *testing.T) { speakPlainHTTP(t, at) })
	t.Run("no certificate", func(t *testing.T) { showNoCertificate(t, at) })
	t.Run("other roles", func(t *testing.T) { readAsOtherRoles(t, i, at) })
	t.Run("debug", func(t *testing.T) { debugFromAfar(t, i, at) })
	t.Run("foreign host", func(t *testing.T) { rebindName(t, i, at) })
	t.Run("password", func(t *testing.T) { findPassword(t, i, debug) })
}

// createDatabase makes the role portolan, which needs the password, and its database.
func createDatabase(t *testing.T, cluster *kittest.Cluster) string {
	t.Helper()
	cluster.Password(t, "portolan", password)
	return "portolan"
}

// ask sends a request with a Host header and returns the status and the body of the response.
func ask(ctx context.Context, client *http.Client, method, url, host, body string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Host = host
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// speakPlainHTTP requests the paths without TLS that were served to any client before the review.
func speakPlainHTTP(t *testing.T, at string) {
	for _, path := range []string{"/metrics", "/readyz", "/healthz", "/debug/pprof/heap", "/debug/loglevel"} {
		code, text, err := ask(t.Context(), http.DefaultClient, http.MethodGet, "http://"+at+path, "", "")
		if err == nil && (code != http.StatusBadRequest || !strings.Contains(text, "HTTPS")) {
			t.Errorf("%s: %d %.100q", path, code, text)
		}
	}
}

// showNoCertificate asks over TLS as a client that accepts every server and has no certificate.
func showNoCertificate(t *testing.T, at string) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} // an attacker does not look
	if code, text, err := ask(t.Context(), client, http.MethodGet, "https://"+at+"/healthz", "", ""); err == nil {
		t.Errorf("%d %.100q", code, text)
	}
}

// readAsOtherRoles sends requests to the registry with stolen certificates, and with the certificate of a
// monitor.
func readAsOtherRoles(t *testing.T, i *labtest.Installation, at string) {
	for who, want := range map[string]int{
		"nodeagent/n1": http.StatusForbidden, "workload/n1/default": http.StatusForbidden, "registrar/n1": http.StatusForbidden, "dnssvc": http.StatusForbidden,
		"monitor": http.StatusOK,
	} {
		client := i.HTTPAs(i.Issue(who, time.Hour), identity.Registry)
		for _, path := range []string{"/metrics", "/readyz"} {
			if code, text, err := ask(t.Context(), client, http.MethodGet, "https://"+at+path, "", ""); err != nil || code != want {
				t.Errorf("%s reads %s: %d %.100q %v, want %d", who, path, code, text, err, want)
			}
		}
	}
}

// debugFromAfar asks for profiles, the command line and another log level with the operator's
// certificate. No client on another machine may have them.
func debugFromAfar(t *testing.T, i *labtest.Installation, at string) {
	client := i.HTTPAs(i.Issue("operator", time.Hour), identity.Registry)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/vars", "/debug/loglevel"} {
		if code, text, err := ask(t.Context(), client, http.MethodGet, "https://"+at+path, "", ""); err != nil || code != http.StatusNotFound {
			t.Errorf("%s: %d %.100q %v", path, code, text, err)
		}
	}
	if code, text, err := ask(t.Context(), client, http.MethodPut, "https://"+at+"/debug/loglevel", "", "debug"); err != nil || code != http.StatusNotFound {
		t.Errorf("log level: %d %.100q %v", code, text, err)
	}
}

// rebindName sends the requests of a browser after DNS rebinding: a foreign name resolves to the registry's
// address.
func rebindName(t *testing.T, i *labtest.Installation, at string) {
	client := i.HTTPAs(i.Issue("operator", time.Hour), identity.Registry)
	for host, want := range map[string]int{"": http.StatusOK, "evil.example": http.StatusMisdirectedRequest, "evil.example:7500": http.StatusMisdirectedRequest} {
		if code, text, err := ask(t.Context(), client, http.MethodGet, "https://"+at+"/metrics", host, ""); err != nil || code != want {
			t.Errorf("Host %q: %d %.100q %v, want %d", host, code, text, err, want)
		}
	}
}

// findPassword looks for the password of the store where other users of the machine look, and where
// an operator copies text from into reports.
func findPassword(t *testing.T, i *labtest.Installation, debug string) {
	registry := i.Processes["registry"]
	places := map[string]func() (string, error){
		"the log": func() (string, error) { text, err := os.ReadFile(registry.LogFile()); return string(text), err },
		"the command line": func() (string, error) {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", registry.PID()))
			return string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})), err
		},
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", debug)
	}}}
	for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1"} {
		places[path] = func() (string, error) {
			_, text, err := ask(t.Context(), client, http.MethodGet, "http://localhost"+path, "", "")
			return text, err
		}
	}
	places["/metrics"] = func() (string, error) {
		_, text, err := ask(t.Context(), i.HTTPAs(i.Issue("monitor", time.Hour), identity.Registry), http.MethodGet,
			fmt.Sprintf("https://%s:7500/metrics", i.RegistryAt().Addr()), "", "")
		return text, err
	}
	for name, read := range places {
		text, err := read()
		switch {
		case err != nil || text == "":
			t.Errorf("%s: %q %v", name, text, err)
		case strings.Contains(text, password):
			t.Errorf("%s has the password of the store", name)
		}
	}
	if text, _ := places["the command line"](); !strings.Contains(text, "-store-file") {
		t.Errorf("command line %q", text)
	}
}

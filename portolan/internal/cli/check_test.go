package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCheckProbe tries a check that succeeds and one that fails.
func TestCheckProbe(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			http.Error(w, "no such page", http.StatusNotFound)
		}
	}))
	defer srv.Close()
	if code, out, errOut := run(t, "", "check", "probe", srv.URL+"/healthz timeout=10s"); code != 0 || !strings.HasPrefix(out, "ready (") {
		t.Errorf("exit code %d, %q\n%s", code, out, errOut)
	}
	port := srv.URL[strings.LastIndexByte(srv.URL, ':'):]
	if code, _, errOut := run(t, "", "check", "probe", "http://"+port+"/x timeout=10s", "--address", "127.0.0.1"); code != 1 || !strings.Contains(errOut, "not ready: GET /x: 404 Not Found: no such page") {
		t.Errorf("exit code %d\n%s", code, errOut)
	}
}

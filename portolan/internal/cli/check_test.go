package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
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

// TestTimeToLiveOfBothReleases reads the answer of an agent of an earlier release and of this one.
func TestTimeToLiveOfBothReleases(t *testing.T) {
	for name, answer := range map[string]*nodeagentv1.ReportCheckResponse{
		"an earlier release": {TtlSeconds: 30},
		"both fields":        {TtlSeconds: 20, Ttl: durationpb.New(30 * time.Second)},
		"only ttl":           {Ttl: durationpb.New(30 * time.Second)},
	} {
		if got := timeToLive(answer); got != 30*time.Second {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

package healthcheck_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"portolan.dev/nodeagent/healthcheck"
)

// TestNodeHandler checks that /livez fails only if changes are stuck, and that /healthz also fails
// if the node is about to go.
func TestNodeHandler(t *testing.T) {
	updated := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	for _, c := range []struct {
		healthy, eligible bool
		healthz, livez    int
	}{
		{true, true, 200, 200}, {true, false, 503, 200}, {false, true, 503, 503}, {false, false, 503, 503},
	} {
		var asked []string
		handler := healthcheck.NodeHandler("nftables",
			func() healthcheck.Node {
				return healthcheck.Node{Healthy: c.healthy, Eligible: c.eligible, Updated: updated}
			},
			func(path string, code int) { asked = append(asked, fmt.Sprint(path, " ", code)) })
		for path, want := range map[string]int{"/healthz": c.healthz, "/livez": c.livez} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			var body struct {
				LastUpdated, CurrentTime time.Time
				NodeEligible             *bool
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			if w.Code != want || w.Header().Get("Content-Type") != "application/json" || (body.NodeEligible != nil) != (path == "/healthz") {
				t.Errorf("%+v: %s %d %s", c, path, w.Code, w.Body)
			}
			if body.NodeEligible != nil && *body.NodeEligible != c.eligible {
				t.Errorf("%+v: %s", c, w.Body)
			}
			// The answer of a healthy node carries the present time.
			if old := body.LastUpdated.Equal(updated); old == c.healthy || body.CurrentTime.Before(updated.Add(time.Hour)) {
				t.Errorf("%+v: %s", c, w.Body)
			}
		}
		if len(asked) != 2 {
			t.Errorf("told of %q", asked)
		}
	}
}

// TestProxyMode checks that /proxyMode returns the bare name of the mode, as kube-proxy does.
func TestProxyMode(t *testing.T) {
	var asked []string
	handler := healthcheck.NodeHandler("nftables", func() healthcheck.Node { return healthcheck.Node{} },
		func(path string, code int) { asked = append(asked, fmt.Sprint(path, " ", code)) })
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/proxyMode", nil))
	if w.Code != 200 || w.Body.String() != "nftables" || fmt.Sprint(asked) != "[/proxyMode 200]" {
		t.Errorf("%d %q, told of %q", w.Code, w.Body, asked)
	}
}

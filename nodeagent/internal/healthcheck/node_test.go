package healthcheck_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/internal/healthcheck"
)

// newNodeServer returns a server of a node with the given state, and the registry of its metrics.
func newNodeServer(healthy, draining bool, node *corev1.Node, updated time.Time) (http.Handler, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	return healthcheck.NewNodeServer(healthcheck.NodeOptions{
		ProxyMode: "nftables", Metrics: reg,
		Healthy: func() bool { return healthy }, Updated: func() time.Time { return updated },
		Draining: func() bool { return draining }, Node: func() *corev1.Node { return node },
	}).Handler(), reg
}

// counted returns the number of responses by path and code.
func counted(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() { // the labels are code and path
			out[m.GetLabel()[1].GetValue()+" "+m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return out
}

// TestNodeServer checks that /livez fails only if changes are stuck, and that /healthz also fails
// if the node drains or is about to go.
func TestNodeServer(t *testing.T) {
	updated := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	deleted := &corev1.Node{Metadata: &corev1.ObjectMeta{DeletionTimestamp: timestamppb.Now()}}
	scaledDown := &corev1.Node{Spec: &corev1.NodeSpec{Taints: []*corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}}}
	for _, c := range []struct {
		healthy, draining bool
		node              *corev1.Node
		healthz, livez    int
	}{
		{true, false, nil, 200, 200}, {true, false, &corev1.Node{}, 200, 200},
		{true, true, nil, 503, 200}, {true, false, deleted, 503, 200}, {true, false, scaledDown, 503, 200},
		{false, false, nil, 503, 503}, {false, true, nil, 503, 503},
	} {
		handler, reg := newNodeServer(c.healthy, c.draining, c.node, updated)
		eligible := !c.draining && c.node != deleted && c.node != scaledDown
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
			if body.NodeEligible != nil && *body.NodeEligible != eligible {
				t.Errorf("%+v: %s", c, w.Body)
			}
			// The answer of a healthy node carries the present time.
			if old := body.LastUpdated.Equal(updated); old == c.healthy || body.CurrentTime.Before(updated.Add(time.Hour)) {
				t.Errorf("%+v: %s", c, w.Body)
			}
		}
		if n := counted(t, reg); len(n) != 2 {
			t.Errorf("responses %v", n)
		}
	}
}

// TestProxyMode checks that /proxyMode returns the bare name of the mode, as kube-proxy does.
func TestProxyMode(t *testing.T) {
	handler, reg := newNodeServer(true, false, nil, time.Time{})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/proxyMode", nil))
	if n := counted(t, reg); w.Code != 200 || w.Body.String() != "nftables" || n["/proxyMode 200"] != 1 {
		t.Errorf("%d %q, responses %v", w.Code, w.Body, n)
	}
}

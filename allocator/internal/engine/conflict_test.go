package engine

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/kittest"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/store"
)

// TestStoreIsTheArbiter lets two independent engines allocate the values of one store.
func TestStoreIsTheArbiter(t *testing.T) {
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	port := allocatorv1.Use_USE_NODE_PORT
	var engines [2]*Engine
	for i := range engines {
		engines[i], err = New(t.Context(), Config{Store: st, Log: kittest.Logger(t), Metrics: prometheus.NewRegistry(), Rest: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer engines[i].Close()
	}
	createPool(t, engines[0], ports)
	take := func(e *Engine, uid, value string) SetResult {
		t.Helper()
		results, err := e.Allocate(t.Context(), []Set{{Owner: store.Owner{UID: uid}, Requests: []allocation.ClaimRequest{{Slot: "p", Use: port, Value: value}}}}, false)
		if err != nil {
			t.Fatal(err)
		}
		return results[0]
	}
	seen := map[string]bool{}
	for i := range 10 {
		r := take(engines[i%2], string(rune('a'+i)), "")
		if len(r.Results) != 1 || seen[r.Results[0].Value.String()] {
			t.Fatalf("value %d: %v, after %v", i, r, seen)
		}
		seen[r.Results[0].Value.String()] = true
	}
	for _, e := range engines {
		if r := take(e, "late", ""); len(r.Failures) != 1 || r.Failures[0].Reason != allocatorv1.FailureReason_FAILURE_REASON_FULL {
			t.Errorf("of a full pool: %v", r)
		}
	}
}

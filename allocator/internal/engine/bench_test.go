package engine

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/store"
)

// BenchmarkAllocate64 runs 64 concurrent clients, each of which allocates an address and confirms
// it. The time is per pair of calls.
func BenchmarkAllocate64(b *testing.B) {
	st, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "a.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	e, err := New(b.Context(), Config{Store: st, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Rest: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	if _, err := e.CreatePool(b.Context(), store.Pool{Name: "ips", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "10.0.0.0/8"}); err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			uid := fmt.Sprint(n.Add(1))
			set := Set{Owner: store.Owner{UID: uid, Kind: "Service", Namespace: "default", Name: "svc"}, Requests: []allocation.ClaimRequest{{Slot: "ip", Use: allocatorv1.Use_USE_CLUSTER_IP}}}
			if _, err := e.Allocate(b.Context(), []Set{set}, false); err != nil {
				b.Error(err)
				return
			}
			if _, _, err := e.Confirm(b.Context(), []OwnerSlots{{UID: uid}}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

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
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/kittest"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/postgres"
	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/store"
)

// BenchmarkAllocate64 runs 64 concurrent clients, each of which allocates an address and confirms
// it, at one process or at two that share a Postgres, which runs without fsync. The time is per pair
// of calls.
func BenchmarkAllocate64(b *testing.B) {
	openPostgres := func(b *testing.B, dsn string) store.Store {
		st, err := postgres.Open(b.Context(), postgres.Config{DSN: dsn})
		if err != nil {
			b.Fatal(err)
		}
		return st
	}
	b.Run("sqlite", func(b *testing.B) {
		st, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "a.db"))
		if err != nil {
			b.Fatal(err)
		}
		benchmarkAllocate(b, st)
	})
	b.Run("postgres", func(b *testing.B) { benchmarkAllocate(b, openPostgres(b, kittest.Postgres(b))) })
	b.Run("postgres,processes=2", func(b *testing.B) {
		dsn := kittest.Postgres(b)
		benchmarkAllocate(b, openPostgres(b, dsn), openPostgres(b, dsn))
	})
}

func benchmarkAllocate(b *testing.B, stores ...store.Store) {
	engines := make([]*Engine, len(stores))
	for i, st := range stores {
		defer st.Close()
		e, err := New(b.Context(), Config{Store: st, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Rest: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		defer e.Close()
		engines[i] = e
	}
	if _, err := engines[0].CreatePool(b.Context(), store.Pool{Name: "ips", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "10.0.0.0/8"}); err != nil {
		b.Fatal(err)
	}
	var n, clients atomic.Int64
	b.ResetTimer()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		e := engines[clients.Add(1)%int64(len(engines))]
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

// BenchmarkReserve500 settles 500 values of a reserve and gets 500 new values in each call. The time is per
// value.
func BenchmarkReserve500(b *testing.B) {
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
	const size = 500
	req := allocation.ReserveRequest{Holder: "r", Begin: true, Wishes: []allocation.ReserveCount{{Family: corev1.IPFamily_IP_FAMILY_IPV4, Count: size}}}
	n := 0
	for b.Loop() {
		if n++; n%size != 0 {
			continue
		}
		res, err := e.Reserve(b.Context(), req)
		if err != nil || len(res.Granted) != size || res.Ignored != 0 {
			b.Fatalf("granted %d, %v", len(res.Granted), err)
		}
		req.Settled = req.Settled[:0]
		for i, v := range res.Granted {
			o := store.Owner{UID: fmt.Sprint(n, "-", i), Kind: "Service", Namespace: "default", Name: "svc"}
			req.Settled = append(req.Settled, allocation.Settlement{ReservedValue: v, Owner: o, Slot: "ip", Confirmed: true})
		}
	}
}

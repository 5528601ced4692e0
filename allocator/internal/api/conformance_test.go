package api_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/kittest"

	"portolan.dev/allocator/allocatortest"
	"portolan.dev/allocator/internal/api"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/internal/sqlite"
)

func TestConformance(t *testing.T) {
	allocatortest.Run(t, func(t *testing.T) allocatorv1.AllocatorServiceClient {
		st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "allocator.db"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(t.Context(), engine.Config{Store: st, Log: kittest.Logger(t), Metrics: prometheus.NewRegistry(), Rest: 5 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		takenUp := make(chan struct{})
		close(takenUp)
		conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) { allocatorv1.RegisterAllocatorServiceServer(s, api.New(e, takenUp)) })
		t.Cleanup(func() {
			e.Close()
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
		return allocatorv1.NewAllocatorServiceClient(conn)
	})
}

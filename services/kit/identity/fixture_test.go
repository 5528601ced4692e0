package identity_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"portolan.dev/services/kit/atomicfile"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// server is a health server with mutual TLS that records its callers.
type server struct {
	healthpb.UnimplementedHealthServer
	addr string

	mu      sync.Mutex
	callers []string
	from    []string // addresses of their connections
}

func (s *server) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	id, err := identity.Caller(ctx)
	who := id.String()
	if err != nil {
		who = "nobody: it " + err.Error()
	}
	p, _ := peer.FromContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callers = append(s.callers, who)
	s.from = append(s.from, p.Addr.String())
	return &healthpb.HealthCheckResponse{}, nil
}

func (s *server) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.callers) == 0 {
		return ""
	}
	return s.callers[len(s.callers)-1]
}

func serve(t *testing.T, source *identity.Source) *server {
	t.Helper()
	lis := kittest.Listen(t)
	s := &server{addr: lis.Addr().String()}
	g := grpc.NewServer(grpc.Creds(source.ServerCredentials()))
	healthpb.RegisterHealthServer(g, s)
	var done sync.WaitGroup
	done.Go(func() { _ = g.Serve(lis) }) // ends by Stop
	t.Cleanup(func() { g.Stop(); done.Wait() })
	return s
}

// dial returns a client that does not retry.
func dial(t *testing.T, addr string, option grpc.DialOption) healthpb.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient(addr, option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return healthpb.NewHealthClient(conn)
}

func check(t *testing.T, client healthpb.HealthClient) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

// open opens files with metrics and with a log that the test can read.
func open(t *testing.T, o identity.Options) (*identity.Source, *record, *prometheus.Registry) {
	t.Helper()
	log := &record{}
	reg := prometheus.NewRegistry()
	o.Log, o.Metrics = slog.New(slog.NewTextHandler(log, nil)), reg
	source, err := identity.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return source, log, reg
}

// record is a log in memory.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func metric(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if label != "" && m.GetLabel()[0].GetValue() != label {
				continue
			}
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s %s", name, label)
	return 0
}

// plain starts a server without TLS.
func plain(t *testing.T) net.Listener {
	t.Helper()
	lis := kittest.Listen(t)
	g := grpc.NewServer()
	var done sync.WaitGroup
	done.Go(func() { _ = g.Serve(lis) }) // ends by Stop
	t.Cleanup(func() { g.Stop(); done.Wait() })
	return lis
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := atomicfile.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

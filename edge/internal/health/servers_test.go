package health_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"portolan.dev/edge/internal/health"
	"portolan.dev/services/kit/kittest"
)

// server is a real server that fails and recovers.
type server struct {
	settings health.Settings
	addr     netip.AddrPort
	fail     func()
	recover  func() // nil if it cannot
}

func addrOf(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

func webServer(t *testing.T, protocol health.Protocol, start func(http.Handler) *httptest.Server) server {
	var broken atomic.Bool
	srv := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() || r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(srv.Close)
	return server{
		settings: health.Settings{Protocol: protocol, Path: "healthz"}, addr: addrOf(srv.Listener.Addr().String()),
		fail: func() { broken.Store(true) }, recover: func() { broken.Store(false) },
	}
}

func tcpServer(t *testing.T) server {
	lis := kittest.Listen(t)
	return server{settings: health.Settings{Protocol: health.TCP}, addr: addrOf(lis.Addr().String()), fail: func() { _ = lis.Close() }}
}

func tlsServer(t *testing.T) server {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	return server{settings: health.Settings{Protocol: health.TLS}, addr: addrOf(srv.Listener.Addr().String()), fail: srv.Close}
}

func grpcServer(t *testing.T) server {
	lis := kittest.Listen(t)
	srv, state := grpc.NewServer(), grpchealth.NewServer()
	healthpb.RegisterHealthServer(srv, state)
	go srv.Serve(lis)
	t.Cleanup(srv.Stop)
	return server{
		settings: health.Settings{Protocol: health.GRPC}, addr: addrOf(lis.Addr().String()),
		fail:    func() { state.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING) },
		recover: func() { state.SetServingStatus("", healthpb.HealthCheckResponse_SERVING) },
	}
}

// TestServersThatFailAndRecover checks real servers of each protocol.
func TestServersThatFailAndRecover(t *testing.T) {
	t.Parallel()
	for name, srv := range map[string]server{
		"tcp": tcpServer(t), "tls": tlsServer(t), "grpc": grpcServer(t),
		"http": webServer(t, health.HTTP, httptest.NewServer), "https": webServer(t, health.HTTPS, httptest.NewTLSServer),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checker := health.NewChecker(kittest.Logger(t), prometheus.NewRegistry())
			kittest.Run(t, "checker", checker.Run)
			changes := make(chan bool, 100)
			group := checker.NewGroup(func(backend netip.AddrPort, usable bool) {
				if backend == srv.addr {
					changes <- usable
				}
			})
			s := srv.settings
			s.Interval, s.Timeout, s.Healthy, s.Unhealthy = 10*time.Millisecond, time.Minute, 2, 3
			group.Set(s, []netip.AddrPort{srv.addr})
			if !kittest.Receive(t, "the first state", changes) {
				t.Error("a new backend is not usable")
			}
			srv.fail()
			if kittest.Receive(t, "the failure", changes) {
				t.Error("the next change is to usable")
			}
			if status := group.Status(); len(status) != 1 || status[0].Usable || status[0].Reason == "" {
				t.Errorf("status %+v", status)
			}
			if srv.recover == nil {
				return
			}
			srv.recover()
			kittest.Eventually(t, "the recovery", func() error {
				if usable, _ := group.Usable(srv.addr); !usable {
					return fmt.Errorf("it is %+v", group.Status())
				}
				return nil
			})
		})
	}
}

package probe_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/probe"
)

// wantResult runs a check and compares its error with the expected part of it; an empty part stands
// for success.
func wantResult(t *testing.T, check probe.Check, part string) {
	t.Helper()
	err := check(t.Context())
	if (err == nil) != (part == "") || err != nil && !strings.Contains(err.Error(), part) {
		t.Errorf("the check returned %v, want %q", err, part)
	}
}

func TestTCP(t *testing.T) {
	t.Parallel()
	lis := kittest.Listen(t)
	check := probe.TCP(lis.Addr().String())
	wantResult(t, check, "")
	lis.Close()
	wantResult(t, check, "refused")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	secure, plain := httptest.NewTLSServer(http.NotFoundHandler()), httptest.NewServer(http.NotFoundHandler())
	defer secure.Close()
	defer plain.Close()
	wantResult(t, probe.TLS(secure.Listener.Addr().String()), "")
	wantResult(t, probe.TLS(plain.Listener.Addr().String()), "handshake")
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	for _, start := range []func(http.Handler) *httptest.Server{httptest.NewServer, httptest.NewTLSServer} {
		var code atomic.Int64
		var seen atomic.Pointer[http.Request]
		srv := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen.Store(r)
			w.Header().Set("Location", "http://192.0.2.1/elsewhere")
			w.WriteHeader(int(code.Load()))
			_, _ = w.Write([]byte("warming up\nmore"))
		}))
		defer srv.Close()
		check := probe.HTTP(probe.Get{URL: srv.URL + "/healthz?full=1", Host: "web.example", Header: http.Header{"X-Probe": {"1", "2"}}})
		for status, part := range map[int]string{200: "", 204: "", 302: "", 399: "", 400: "400", 404: "GET /healthz?full=1: 404 Not Found: warming up", 503: "503"} {
			code.Store(int64(status))
			wantResult(t, check, part)
		}
		r := seen.Load()
		if r.Host != "web.example" || len(r.Header["X-Probe"]) != 2 || r.URL.RawQuery != "full=1" || r.UserAgent() != "portolan-probe/1" {
			t.Errorf("the request was for %s of %s with %v", r.URL, r.Host, r.Header)
		}
	}
	wantResult(t, probe.HTTP(probe.Get{URL: "http://[::1"}), "missing")
}

func TestRedirectWithinTheHostIsFollowed(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer srv.Close()
	wantResult(t, probe.HTTP(probe.Get{URL: srv.URL}), "502")
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	lis := kittest.Listen(t)
	srv, health := grpc.NewServer(), grpchealth.NewServer()
	healthpb.RegisterHealthServer(srv, health)
	go srv.Serve(lis)
	defer srv.Stop()
	health.SetServingStatus("shop", healthpb.HealthCheckResponse_NOT_SERVING)
	check := probe.GRPC(lis.Addr().String(), "shop")
	wantResult(t, check, `service "shop" is NOT_SERVING`)
	wantResult(t, probe.GRPC(lis.Addr().String(), ""), "")
	wantResult(t, probe.GRPC(lis.Addr().String(), "unknown"), "NotFound")
	health.SetServingStatus("shop", healthpb.HealthCheckResponse_SERVING)
	wantResult(t, check, "")
}

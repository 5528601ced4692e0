package rpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

func same(_ context.Context, req *text) (*text, error) { return req, nil }

func TestErrorsAreMapped(t *testing.T) {
	fail := func(what string) error {
		switch what {
		case "typed":
			return apierr.NotFound("Service", "web")
		case "plain":
			return errors.New("secret")
		case "panic":
			panic("secret")
		}
		return nil
	}
	f := serve(t, &echo{
		unary: func(_ context.Context, req *text) (*text, error) { return req, fail(req.Value) },
		stream: func(ss grpc.ServerStream) error {
			req := newText("")
			if err := ss.RecvMsg(req); err != nil {
				return err
			}
			return fail(req.Value)
		},
	}, nil)
	want := map[string]codes.Code{"fine": codes.OK, "typed": codes.NotFound, "plain": codes.Internal, "panic": codes.Internal, "not utf8 \xff": codes.InvalidArgument}
	for req, code := range want {
		_, err := f.call(t.Context(), req)
		check(t, "unary "+req, err, code)

		cs := f.open(t.Context(), t)
		if err := cs.SendMsg(newText(req)); err != nil {
			t.Fatal(err)
		}
		err = cs.RecvMsg(newText(""))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		check(t, "stream "+req, err, code)
	}
}

func check(t *testing.T, what string, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
	if err != nil && (apierr.ReasonOf(err) == "" || strings.Contains(err.Error(), "secret")) {
		t.Errorf("%s: %v lacks a reason or tells too much", what, err)
	}
}

func TestMetrics(t *testing.T) {
	f := serve(t, &echo{
		unary: func(_ context.Context, req *text) (*text, error) {
			if req.Value == "panic" {
				panic("x")
			}
			return req, nil
		},
		stream: func(grpc.ServerStream) error { return nil },
	}, nil)
	for range 3 {
		if _, err := f.call(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.call(t.Context(), "panic"); status.Code(err) != codes.Internal {
		t.Fatal(err)
	}
	if err := f.open(t.Context(), t).RecvMsg(newText("")); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	f.stop() // calls are counted when their handlers have returned
	want := `# HELP portolan_rpc_panics_total Handlers that panicked. Each is a bug.
# TYPE portolan_rpc_panics_total counter
portolan_rpc_panics_total 1
# HELP portolan_rpc_requests_total Calls answered, by method and status code; a stream counts when it ends.
# TYPE portolan_rpc_requests_total counter
portolan_rpc_requests_total{code="Internal",method="/portolan.test.v1.EchoService/Echo"} 1
portolan_rpc_requests_total{code="OK",method="/portolan.test.v1.EchoService/Echo"} 3
portolan_rpc_requests_total{code="OK",method="/portolan.test.v1.EchoService/Watch"} 1
# HELP portolan_rpc_streams_open Streams open now, by method.
# TYPE portolan_rpc_streams_open gauge
portolan_rpc_streams_open{method="/portolan.test.v1.EchoService/Watch"} 0
`
	if err := testutil.GatherAndCompare(f.metrics, strings.NewReader(want),
		"portolan_rpc_panics_total", "portolan_rpc_requests_total", "portolan_rpc_streams_open"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(f.metrics, "portolan_rpc_duration_seconds"); err != nil || n != 1 {
		t.Errorf("%d methods have durations (%v), want the unary one only", n, err)
	}
	problems, err := testutil.GatherAndLint(f.metrics)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

func TestUnaryCallsHaveADeadline(t *testing.T) {
	f := serve(t, &echo{unary: func(ctx context.Context, req *text) (*text, error) {
		if _, ok := ctx.Deadline(); !ok {
			return nil, errors.New("no deadline")
		}
		if req.Value == "wait" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return req, nil
	}}, func(o *rpc.ServerOptions) { o.DefaultTimeout = 20 * time.Millisecond })
	if _, err := f.call(t.Context(), "wait"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if _, err := f.call(ctx, "x"); err != nil {
		t.Errorf("with a deadline of its own: %v", err)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	f := serve(t, &echo{unary: same}, func(o *rpc.ServerOptions) { o.MaxMessage = 1000 })
	if got, err := f.call(t.Context(), strings.Repeat("x", 900)); err != nil || len(got) != 900 {
		t.Errorf("below the limit: %d bytes, %v", len(got), err)
	}
	if _, err := f.call(t.Context(), strings.Repeat("x", 1100)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("above the limit: %v", err)
	}
}

func TestHealthFollowsTheRegistry(t *testing.T) {
	f := serve(t, &echo{}, nil)
	client := healthpb.NewHealthClient(f.conn)
	for _, service := range []string{"", "portolan.test.v1.EchoService", "grpc.health.v1.Health"} {
		watch, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			err  error
			want healthpb.HealthCheckResponse_ServingStatus
		}{
			{nil, healthpb.HealthCheckResponse_SERVING},
			{errors.New("away"), healthpb.HealthCheckResponse_NOT_SERVING},
			{nil, healthpb.HealthCheckResponse_SERVING},
		} {
			f.health.Set("store", step.err)
			resp, err := watch.Recv()
			if err != nil || resp.GetStatus() != step.want {
				t.Fatalf("service %q, store %v: got %v %v", service, step.err, resp.GetStatus(), err)
			}
		}
	}
}

func TestReflectionListsServices(t *testing.T) {
	f := serve(t, &echo{}, nil)
	cs, err := reflectionpb.NewServerReflectionClient(f.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := cs.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	resp, err := cs.Recv()
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, s := range resp.GetListServicesResponse().GetService() {
		names += s.GetName() + " "
	}
	if !strings.Contains(names, "portolan.test.v1.EchoService") {
		t.Errorf("got %s", names)
	}
}

func TestStopEndsStreamsAndFinishesCalls(t *testing.T) {
	inside, release := make(chan struct{}, 2), make(chan struct{})
	f := serve(t, &echo{
		unary: func(_ context.Context, req *text) (*text, error) {
			inside <- struct{}{}
			<-release
			return req, nil
		},
		stream: func(ss grpc.ServerStream) error {
			inside <- struct{}{}
			<-ss.Context().Done()
			defer close(release) // the stream ends first; the unary call is not cancelled
			return ss.Context().Err()
		},
	}, func(o *rpc.ServerOptions) { o.DrainTimeout = time.Minute })
	cs := f.open(t.Context(), t)
	answered := make(chan error, 1)
	go func() {
		got, err := f.call(t.Context(), "x")
		if err == nil && got != "x" {
			err = errors.New("wrong answer " + got)
		}
		answered <- err
	}()
	kittest.Receive(t, "the calls", inside)
	kittest.Receive(t, "the calls", inside)
	f.stop()
	if err := cs.RecvMsg(newText("")); status.Code(err) != codes.Unavailable {
		t.Errorf("stream ended with %v", err)
	} else if _, ok := apierr.RetryAfter(err); !ok {
		t.Errorf("%v does not say when to come back", err)
	}
	if err := kittest.Receive(t, "the answer", answered); err != nil {
		t.Errorf("call in flight: %v", err)
	}
}

func TestStopCutsOffWhatLasts(t *testing.T) {
	inside := make(chan struct{}, 1)
	f := serve(t, &echo{unary: func(ctx context.Context, _ *text) (*text, error) {
		inside <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}, func(o *rpc.ServerOptions) { o.DrainTimeout, o.DefaultTimeout = 10*time.Millisecond, time.Hour })
	answered := make(chan error, 1)
	go func() {
		_, err := f.call(t.Context(), "x")
		answered <- err
	}()
	kittest.Receive(t, "the call", inside)
	f.stop()
	if err := kittest.Receive(t, "the answer", answered); err == nil {
		t.Error("a call that never ends was answered")
	}
}

func TestTwoServersShareMetrics(t *testing.T) {
	f := serve(t, &echo{unary: same}, nil)
	g := serve(t, &echo{unary: same}, func(o *rpc.ServerOptions) { o.Metrics = f.metrics })
	for _, s := range []*fixture{f, g} {
		if _, err := s.call(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		s.stop()
	}
	want := `# HELP portolan_rpc_requests_total Calls answered, by method and status code; a stream counts when it ends.
# TYPE portolan_rpc_requests_total counter
portolan_rpc_requests_total{code="OK",method="/portolan.test.v1.EchoService/Echo"} 2
`
	if err := testutil.GatherAndCompare(f.metrics, strings.NewReader(want), "portolan_rpc_requests_total"); err != nil {
		t.Error(err)
	}
}

// TestIdentityNeedsAuthorizer checks that a server does not answer every call of every identity
// because a daemon did not pass it an authorizer.
func TestIdentityNeedsAuthorizer(t *testing.T) {
	log := kittest.Logger(t)
	server := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log), Identity: kittest.NewCertificates(t).Source("registry")})
	if err := server.Serve(t.Context(), kittest.Listen(t)); err == nil || !strings.Contains(err.Error(), "needs an authorizer") {
		t.Errorf("got %v", err)
	}
}

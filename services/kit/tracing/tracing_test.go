package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/tracing"
)

const traceparent = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"

func recorder(t *testing.T) (*tracing.Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	return tracing.NewWith(tracing.Options{Daemon: "sample"}, sdktrace.WithSyncer(exporter)), exporter
}

// TestOff checks that everything may be called without tracing, and that nothing is allocated.
func TestOff(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	off, err := tracing.New(t.Context(), tracing.Options{Daemon: "sample"})
	if err != nil || off != nil {
		t.Fatalf("got %v, %v", off, err)
	}
	if network := rpc.TCP(); off.Network(network) != network {
		t.Error("another network")
	}
	off.Close(kittest.Logger(t))
	parents := []string{traceparent, ""}
	began := time.Now()
	allocations := testing.AllocsPerRun(100, func() {
		ctx, done := off.Continue(context.Background(), "apply", parents)
		off.RecordSpan(traceparent, "relay", began)
		below, span := tracing.Start(ctx, "below")
		span.Count("n", 1)
		span.Name("s", "v")
		if span.Recorded() || tracing.SpanFromContext(below).Recorded() || tracing.Traceparent(below) != "" {
			t.Error("recorded")
		}
		span.End(nil)
		done(nil)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// TestContinue checks that work for several changes is in the trace of each, and that its child
// spans are in the trace of the first.
func TestContinue(t *testing.T) {
	tracer, spans := recorder(t)
	second := "00-1102030405060708090a0b0c0d0e0f10-1102030405060708-01"
	unsampled := "00-2102030405060708090a0b0c0d0e0f10-2102030405060708-00"
	ctx, done := tracer.Continue(t.Context(), "apply", []string{"", unsampled, traceparent, second, traceparent, "nonsense"})
	_, below := tracing.Start(ctx, "below")
	below.Count("steps", 3)
	below.End(errors.New("broken"))
	done(nil)
	_, late := tracing.Start(tracing.SpanFromContext(ctx).ContextWith(context.Background()), "later")
	late.End(nil)

	got := spans.GetSpans()
	if len(got) != 4 {
		t.Fatalf("%d spans", len(got))
	}
	child, first, other, later := got[0], got[1], got[2], got[3]
	if first.Name != "apply" || first.Parent.TraceID().String() != "0102030405060708090a0b0c0d0e0f10" || first.Parent.SpanID().String() != "0102030405060708" {
		t.Errorf("first: %+v", first)
	}
	if child.Parent.SpanID() != first.SpanContext.SpanID() || child.Status.Description != "broken" || child.Attributes[0].Value.AsInt64() != 3 {
		t.Errorf("child: %+v", child)
	}
	if later.Parent.SpanID() != first.SpanContext.SpanID() || later.SpanContext.TraceID() != first.SpanContext.TraceID() {
		t.Errorf("later: %+v", later)
	}
	if other.Parent.SpanID().String() != "1102030405060708" || len(other.Links) != 1 || other.Links[0].SpanContext.SpanID() != first.SpanContext.SpanID() {
		t.Errorf("other: %+v", other)
	}
}

func TestNote(t *testing.T) {
	tracer, spans := recorder(t)
	began := time.Now().Add(-time.Minute)
	for _, parent := range []string{"", "nonsense", traceparent} {
		tracer.RecordSpan(parent, "relay", began)
	}
	got := spans.GetSpans()
	if len(got) != 1 || got[0].Parent.SpanID().String() != "0102030405060708" || !got[0].StartTime.Equal(began) || got[0].EndTime.Before(began.Add(time.Minute)) {
		t.Errorf("%+v", got)
	}
}

// TestCalls checks that calls between daemons pass on the trace, and that calls without an end and
// a daemon's own activity begin none.
func TestCalls(t *testing.T) {
	tracer, spans := recorder(t)
	lis := kittest.Listen(t)
	srv := grpc.NewServer(tracer.ServerOption())
	healthpb.RegisterHealthServer(srv, health.NewServer())
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Sample", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := &healthpb.HealthCheckRequest{}
			if err := decode(in); err != nil {
				return nil, err
			}
			_, span := tracing.Start(ctx, "work")
			span.End(nil)
			return &healthpb.HealthCheckResponse{}, nil
		}}},
	}, struct{}{})
	kittest.Run(t, "server", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, srv.Stop)()
		return srv.Serve(lis)
	})
	conn, err := tracer.Network(rpc.TCP()).Dial(lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := func(ctx context.Context, method string) {
		t.Helper()
		if err := conn.Invoke(ctx, method, &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{}, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
	}
	call(t.Context(), "/grpc.health.v1.Health/Check")
	call(t.Context(), "/test.Sample/Call")
	if got := spans.GetSpans(); len(got) != 0 {
		t.Fatalf("a call of a daemon's own accord began a trace: %+v", got)
	}
	ctx, done := tracer.Continue(t.Context(), "apply", []string{traceparent})
	call(ctx, "/test.Sample/Call")
	done(nil)
	var got tracetest.SpanStubs
	kittest.Eventually(t, "all spans", func() error { // the server's span ends after the answer
		if got = spans.GetSpans(); len(got) != 4 {
			return errors.New("not all are there")
		}
		return nil
	})
	byName := map[string]tracetest.SpanStub{}
	for _, s := range got {
		byName[s.Name+" "+s.SpanKind.String()] = s
		if s.SpanContext.TraceID().String() != "0102030405060708090a0b0c0d0e0f10" {
			t.Errorf("%s is of another trace", s.Name)
		}
	}
	for child, parent := range map[string]string{
		"work internal": "test.Sample/Call server", "test.Sample/Call server": "test.Sample/Call client", "test.Sample/Call client": "apply internal",
	} {
		if p := byName[parent].SpanContext.SpanID(); !p.IsValid() || byName[child].Parent.SpanID() != p {
			t.Errorf("%q is not below %q", child, parent)
		}
	}
	if kind := byName["apply internal"].SpanKind; kind != trace.SpanKindInternal {
		t.Errorf("apply is %s", kind)
	}
}

// TestCallFromOutside checks that an external call begins a trace.
func TestCallFromOutside(t *testing.T) {
	tracer, spans := recorder(t)
	srv := rpc.NewServer(rpc.ServerOptions{
		Log: kittest.Logger(t), Metrics: kittest.Host(t, nil, "").Metrics, Health: kittest.Host(t, nil, "").Health,
		Extra: []grpc.ServerOption{tracer.ServerOption()},
	})
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Sample", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return &healthpb.HealthCheckResponse{}, decode(&healthpb.HealthCheckRequest{})
		}}},
	}, struct{}{})
	lis := kittest.Listen(t)
	kittest.Run(t, "server", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	conn, err := rpc.TCP().Dial(lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = conn.Invoke(t.Context(), "/test.Sample/Call", &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "a span", func() error {
		if got := spans.GetSpans(); len(got) != 1 || got[0].Parent.IsValid() {
			return errors.New("not there")
		}
		return nil
	})
}

// safeBuffer is a buffer that can be read and written concurrently.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestCollectorAway checks that an unreachable collector causes one line in the log and does not
// end the daemon.
func TestCollectorAway(t *testing.T) {
	lis := kittest.Listen(t)
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
	var lines safeBuffer
	log := slog.New(slog.NewTextHandler(&lines, nil))
	tracer, err := tracing.New(t.Context(), tracing.Options{Daemon: "sample", Endpoint: lis.Addr().String(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		tracer.RecordSpan(traceparent, "work", time.Now())
	}
	tracer.Close(log)
	if n := strings.Count(lines.String(), "spans are lost"); n == 0 || n > 2 {
		t.Errorf("%d lines:\n%s", n, lines.String())
	}
}

package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.34.0"
	"go.opentelemetry.io/otel/trace"

	"portolan.dev/services/kit/obs"
)

// scope names this instrumentation to those who read traces.
const scope = "portolan.dev/services/kit/tracing"

// Tracer is how traces enter and leave a daemon. Nil is one that is off.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Options say where spans go.
type Options struct {
	// Daemon is the name of the service in traces.
	Daemon string
	// Version of the daemon.
	Version string
	// Endpoint is host:port of a collector that takes OTLP over gRPC, without TLS.
	// Empty: what OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or
	// OTEL_EXPORTER_OTLP_ENDPOINT says, and tracing is off if that is nothing.
	Endpoint string
	// Log is told when spans are lost.
	Log *slog.Logger
}

// New returns a tracer, nil where tracing is off. It does not wait for the
// collector; what the collector does not take in time is dropped. The other
// OTEL_EXPORTER_OTLP_ variables (headers, certificates) hold as everywhere.
func New(ctx context.Context, o Options) (*Tracer, error) {
	var options []otlptracegrpc.Option
	switch {
	case o.Endpoint != "":
		options = append(options, otlptracegrpc.WithEndpoint(o.Endpoint), otlptracegrpc.WithInsecure())
	case cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) == "":
		return nil, nil //nolint:nilnil // off
	}
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return NewWith(o, sdktrace.WithBatcher(reported(exporter, o.Log), sdktrace.WithBatchTimeout(time.Second))), nil
}

// reporting says in the log when spans begin to be lost, and when they are taken
// again. The library would write a line of its own for each batch, past our log.
type reporting struct {
	sdktrace.SpanExporter
	outage obs.Outage
}

func reported(exporter sdktrace.SpanExporter, log *slog.Logger) *reporting {
	return &reporting{SpanExporter: exporter, outage: obs.Outage{Log: log, Down: "spans are lost", Up: "spans are taken again"}}
}

// ExportSpans implements sdktrace.SpanExporter.
func (r *reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		r.outage.Failed(err)
	} else {
		r.outage.Over()
	}
	return nil
}

// NewWith returns a tracer whose spans go where an option says.
func NewWith(o Options, to sdktrace.TracerProviderOption) *Tracer {
	options := []sdktrace.TracerProviderOption{to, sdktrace.WithResource(resource.NewSchemaless(
		semconv.ServiceNamespace("portolan"), semconv.ServiceName(o.Daemon), semconv.ServiceVersion(o.Version),
	))}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" { // which the library reads
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(fromOutside{})))
	}
	provider := sdktrace.NewTracerProvider(options...)
	return &Tracer{provider: provider, tracer: provider.Tracer(scope)}
}

// fromOutside samples traces that begin with a call from outside. What a daemon
// does of its own accord (heartbeats, leases, polls) would bury them.
type fromOutside struct{}

// ShouldSample implements sdktrace.Sampler.
func (fromOutside) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	decision := sdktrace.Drop
	if p.Kind == trace.SpanKindServer {
		decision = sdktrace.RecordAndSample
	}
	return sdktrace.SamplingResult{Decision: decision, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
}

// Description implements sdktrace.Sampler.
func (fromOutside) Description() string { return "FromOutside" }

// closeTimeout bounds how long a daemon that stops waits for the collector.
const closeTimeout = 2 * time.Second

// Close sends what is left.
func (t *Tracer) Close(log *slog.Logger) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		log.Warn("spans are lost", "err", err)
	}
}

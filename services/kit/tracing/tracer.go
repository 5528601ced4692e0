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

// scope is the name of this instrumentation in traces.
const scope = "portolan.dev/services/kit/tracing"

// Tracer begins and continues traces in a daemon. A nil Tracer is off.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Options are the options of a Tracer.
type Options struct {
	// Daemon is the name of the service in traces.
	Daemon string
	// Version is the version of the daemon.
	Version string
	// Endpoint is the host:port of a collector for OTLP over gRPC without TLS. If it is empty,
	// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT is used. If those are empty
	// too, tracing is off.
	Endpoint string
	// Log receives warnings about lost spans.
	Log *slog.Logger
}

// New returns a tracer, or nil if tracing is off. It does not wait for the collector. Spans that
// the collector does not accept in time are dropped. The other OTEL_EXPORTER_OTLP_ variables, such
// as headers and certificates, have their usual meaning.
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

// reporting logs when spans begin to be lost and when they are accepted again. The library itself
// would write a line for each batch to its own log.
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

// NewWith returns a tracer that sends its spans to the destination in an option.
func NewWith(o Options, to sdktrace.TracerProviderOption) *Tracer {
	options := []sdktrace.TracerProviderOption{to, sdktrace.WithResource(resource.NewSchemaless(
		semconv.ServiceNamespace("portolan"), semconv.ServiceName(o.Daemon), semconv.ServiceVersion(o.Version),
	))}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" { // read by the library
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(externalCallSampler{})))
	}
	provider := sdktrace.NewTracerProvider(options...)
	return &Tracer{provider: provider, tracer: provider.Tracer(scope)}
}

// externalCallSampler samples traces that begin with an external call. Traces of the daemons' own activity
// (heartbeats, leases, polls) would be too many.
type externalCallSampler struct{}

// ShouldSample implements sdktrace.Sampler.
func (externalCallSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	decision := sdktrace.Drop
	if p.Kind == trace.SpanKindServer {
		decision = sdktrace.RecordAndSample
	}
	return sdktrace.SamplingResult{Decision: decision, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
}

// Description implements sdktrace.Sampler.
func (externalCallSampler) Description() string { return "FromOutside" }

// closeTimeout is the longest time that a stopping daemon waits for the collector.
const closeTimeout = 2 * time.Second

// Close sends the remaining spans.
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

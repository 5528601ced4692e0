package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Span is a part of a trace. It must be ended with End.
type Span struct{ span trace.Span }

// none is a span that is not recorded.
var none = Span{trace.SpanFromContext(context.Background())}

// SpanFromContext returns the span in ctx. With [Span.In] it can be continued later in another context.
func SpanFromContext(ctx context.Context) Span { return Span{trace.SpanFromContext(ctx)} }

// Recorded reports whether the span is recorded.
func (s Span) Recorded() bool { return s.span != nil && s.span.SpanContext().IsSampled() }

// ContextWith returns a context in which new spans are children of s, even if s has ended.
func (s Span) ContextWith(ctx context.Context) context.Context {
	if !s.Recorded() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// Count adds an integer attribute to the span.
func (s Span) Count(name string, n int) {
	if s.Recorded() {
		s.span.SetAttributes(attribute.Int(name, n))
	}
}

// Name adds a string attribute to the span.
func (s Span) Name(name, value string) {
	if s.Recorded() {
		s.span.SetAttributes(attribute.String(name, value))
	}
}

// End ends the span. If err is not nil, the span has the status error.
func (s Span) End(err error) {
	if !s.Recorded() {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}

// Start begins a child of the span in ctx. If ctx has no recorded span, Start does nothing.
func Start(ctx context.Context, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.SpanContext().IsSampled() {
		return ctx, none
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, name)
	return ctx, Span{span}
}

var w3c propagation.TraceContext

// Traceparent returns the W3C traceparent of the span in ctx, or "" if ctx has no recorded span.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// contextWithTraceparent returns a context with the span of a traceparent. A malformed traceparent is ignored.
func contextWithTraceparent(ctx context.Context, traceparent string) context.Context {
	return w3c.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// mostTraces is the largest number of traces that one batch continues.
const mostTraces = 64

// Continue begins a span in each of several traces, for work that is done for all of them at once.
// The traces are given by their traceparents; empty ones and duplicates are ignored. In the
// returned context new spans are children of the first span. The other spans have a link to the
// first. done ends all of them.
func (t *Tracer) Continue(ctx context.Context, name string, traceparents []string) (_ context.Context, done func(error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	seen := map[string]bool{}
	var spans []Span
	first := ctx
	for _, parent := range traceparents {
		if parent == "" || seen[parent] || len(spans) == mostTraces {
			continue
		}
		seen[parent] = true
		if !trace.SpanContextFromContext(contextWithTraceparent(ctx, parent)).IsSampled() {
			continue
		}
		var options []trace.SpanStartOption
		if len(spans) > 0 {
			options = append(options, trace.WithLinks(trace.LinkFromContext(first)))
		}
		continued, span := t.tracer.Start(contextWithTraceparent(ctx, parent), name, options...)
		if len(spans) == 0 {
			first = continued
		}
		spans = append(spans, Span{span})
	}
	return first, func(err error) {
		for _, span := range spans {
			span.End(err)
		}
	}
}

// RecordSpan adds a span from began until now to the trace of a traceparent.
func (t *Tracer) RecordSpan(traceparent, name string, began time.Time) {
	if t == nil || traceparent == "" {
		return
	}
	ctx := contextWithTraceparent(context.Background(), traceparent)
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return
	}
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(began))
	span.End()
}

package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Span is a part of a trace. End it.
type Span struct{ span trace.Span }

// none is the span that is not recorded.
var none = Span{trace.SpanFromContext(context.Background())}

// Of returns the span in ctx, to be continued later and elsewhere with [Span.In].
func Of(ctx context.Context) Span { return Span{trace.SpanFromContext(ctx)} }

// Recorded says whether anybody will see the span.
func (s Span) Recorded() bool { return s.span != nil && s.span.SpanContext().IsSampled() }

// In returns a context in which what is begun is below the span, also when it
// has ended.
func (s Span) In(ctx context.Context) context.Context {
	if !s.Recorded() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// Count adds a number to what is known of the span.
func (s Span) Count(name string, n int) {
	if s.Recorded() {
		s.span.SetAttributes(attribute.Int(name, n))
	}
}

// Name adds a name to what is known of the span.
func (s Span) Name(name, value string) {
	if s.Recorded() {
		s.span.SetAttributes(attribute.String(name, value))
	}
}

// End ends the span, and with an error says so.
func (s Span) End(err error) {
	if !s.Recorded() {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}

// Start begins a span below the one in ctx. Where there is none it does nothing.
func Start(ctx context.Context, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.SpanContext().IsSampled() {
		return ctx, none
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, name)
	return ctx, Span{span}
}

var w3c propagation.TraceContext

// Traceparent is the W3C traceparent of the span in ctx; empty where there is
// none that is recorded.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// resume puts what travelled as a traceparent into a context; nonsense is nothing.
func resume(ctx context.Context, traceparent string) context.Context {
	return w3c.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// mostTraces bounds the traces that one batch continues.
const mostTraces = 64

// Continue begins a span in each of several traces, given by their
// traceparents, for work that is done for all of them at once. Spans that are
// begun with the context it returns are below the first; the others have a link
// there. Empty ones and repetitions do not count. done ends them all.
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
		if !trace.SpanContextFromContext(resume(ctx, parent)).IsSampled() {
			continue
		}
		var options []trace.SpanStartOption
		if len(spans) > 0 {
			options = append(options, trace.WithLinks(trace.LinkFromContext(first)))
		}
		continued, span := t.tracer.Start(resume(ctx, parent), name, options...)
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

// Note records what was done for a trace from a time until now.
func (t *Tracer) Note(traceparent, name string, began time.Time) {
	if t == nil || traceparent == "" {
		return
	}
	ctx := resume(context.Background(), traceparent)
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return
	}
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(began))
	span.End()
}

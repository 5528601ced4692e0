package tracing_test

import (
	"regexp"
	"testing"
	"time"

	"portolan.dev/services/kit/tracing"
)

var wellFormed = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// FuzzTraceparent continues traces of any traceparents. Only a well-formed one is continued, and
// the span's own traceparent is well-formed.
func FuzzTraceparent(f *testing.F) {
	for _, text := range []string{
		traceparent, "", "nonsense", "00-00000000000000000000000000000000-0102030405060708-01", "ff-0102030405060708090a0b0c0d0e0f10-0102030405060708-01",
		"00-0102030405060708090a0b0c0d0e0f10-0102030405060708-FF", traceparent + "-x", "\xff" + traceparent[1:],
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tracer, spans := recorder(t)
		ctx, done := tracer.Continue(t.Context(), "apply", []string{text})
		if own := tracing.Traceparent(ctx); own != "" && !wellFormed.MatchString(own) {
			t.Fatalf("after %q the traceparent is %q", text, own)
		}
		done(nil)
		tracer.RecordSpan(text, "relay", time.Now())
		for _, span := range spans.GetSpans() {
			if parent := span.Parent; parent.IsValid() && (len(text) < 55 || parent.TraceID().String() != text[3:35] || parent.SpanID().String() != text[36:52]) {
				t.Fatalf("%q is continued below %s of %s", text, parent.SpanID(), parent.TraceID())
			}
		}
	})
}

package changes_test

import (
	"context"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/protobuf/proto"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/tracing"
)

// TestApplyIsPartOfTheTraceOfAChange checks that a request can be traced from the client to every
// daemon that handles it, and that a change without a trace starts none.
func TestApplyIsPartOfTheTraceOfAChange(t *testing.T) {
	const trace = "0102030405060708090a0b0c0d0e0f10"
	d := drive(t, changestest.New(t))
	tracer := tracing.NewWith(tracing.Options{Daemon: "sample"}, sdktrace.WithSyncer(tracetest.NewInMemoryExporter()))
	var traceparents []string
	follower, err := changes.NewFollower(changes.FollowerConfig{
		Registry: d.registry, Prefix: changestest.Prefix, Log: kittest.Logger(t), Tracer: tracer,
		Apply: func(ctx context.Context, _ []changes.Change, _ uint64) error {
			traceparents = append(traceparents, tracing.Traceparent(ctx))
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.must(follower.Begin(t.Context()))
	putMany(d.log, 3)
	epoch, _, _, _ := d.log.Head(t.Context())
	logged, err := d.log.After(t.Context(), 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	traced := logged[2]
	traced.Change = proto.CloneOf(traced.Change)
	traced.Traceparent = "00-" + trace + "-0102030405060708-01"
	if traced.Payload, err = traced.Change.MarshalVT(); err != nil {
		t.Fatal(err)
	}
	d.must(follower.Drain(t.Context(), d.sent(1)))
	d.must(follower.Drain(t.Context(), d.sent(2), republished(t, epoch, traced)))
	if len(traceparents) != 3 || traceparents[0] != "" || traceparents[1] != "" || !strings.Contains(traceparents[2], trace) {
		t.Errorf("Apply was part of the traces %q, want none, none and %s", traceparents, trace)
	}
}

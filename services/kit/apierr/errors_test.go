package apierr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"portolan.dev/services/kit/apierr"
)

// wire returns err as a client receives it: as a status that was encoded and decoded.
func wire(t testing.TB, err error) error {
	t.Helper()
	return status.FromProto(apierr.ToStatus(err).Proto()).Err()
}

func TestEveryErrorSaysTheSameOnBothSides(t *testing.T) {
	tests := []struct {
		err    error
		code   codes.Code
		reason string
		text   string // message of the status
	}{
		{
			apierr.Invalid("Service", "default/web", apierr.Violations{{"spec.ports", apierr.ReasonRequired, "at least one"}}),
			codes.InvalidArgument, apierr.ReasonInvalidArgument, `Service "default/web" is invalid: spec.ports: at least one`,
		},
		{apierr.NotFound("Node", "n1"), codes.NotFound, apierr.ReasonNotFound, `Node "n1" not found`},
		{apierr.AlreadyExists("Node", "n1"), codes.AlreadyExists, apierr.ReasonAlreadyExists, `Node "n1" already exists`},
		{
			apierr.Conflict("Node", "n1", 9, 7), codes.Aborted, apierr.ReasonConflict,
			`Node "n1" is at resource version 9, not 7: read it again and retry`,
		},
		{apierr.Exhausted("pool/a", "pool a is full"), codes.ResourceExhausted, apierr.ReasonExhausted, "pool a is full"},
		{apierr.Unavailable("no database", time.Second), codes.Unavailable, apierr.ReasonUnavailable, "no database"},
		{apierr.OutOfRange("revision 3 is gone", 12), codes.OutOfRange, apierr.ReasonCompacted, "revision 3 is gone"},
		{apierr.FailedPrecondition("pool in use"), codes.FailedPrecondition, apierr.ReasonFailedPrecondition, "pool in use"},
		{apierr.PermissionDenied("not yours"), codes.PermissionDenied, apierr.ReasonPermissionDenied, "not yours"},
		{apierr.Unauthenticated("who are you"), codes.Unauthenticated, apierr.ReasonUnauthenticated, "who are you"},
		{apierr.Internal(errors.New("secret")), codes.Internal, apierr.ReasonInternal, "internal error"},
		{errors.New("secret"), codes.Internal, apierr.ReasonInternal, "internal error"},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), codes.DeadlineExceeded, apierr.ReasonDeadlineExceeded, "deadline exceeded"},
		{fmt.Errorf("read: %w", context.Canceled), codes.Canceled, apierr.ReasonCanceled, "canceled"},
		{status.Error(codes.Unauthenticated, "who?"), codes.Unauthenticated, "UNAUTHENTICATED", "who?"},
	}
	for _, tt := range tests {
		for side, err := range map[string]error{
			"ours":     tt.err,
			"wrapped":  fmt.Errorf("create: %w", tt.err),
			"received": wire(t, tt.err),
			"relayed":  wire(t, fmt.Errorf("call another daemon: %w", wire(t, tt.err))),
		} {
			st := apierr.ToStatus(err)
			if st.Code() != tt.code || st.Message() != tt.text {
				t.Errorf("%s %v: got %s %q, want %s %q", side, tt.err, st.Code(), st.Message(), tt.code, tt.text)
			}
			if got := apierr.ReasonOf(err); got != tt.reason {
				t.Errorf("%s %v: reason %q, want %q", side, tt.err, got, tt.reason)
			}
		}
	}
}

func TestNilIsNoError(t *testing.T) {
	if got := apierr.ToStatus(nil).Err(); got != nil {
		t.Errorf("ToStatus(nil) = %v", got)
	}
	if err := apierr.Internal(nil); err != nil {
		t.Errorf("Internal(nil) = %v", err)
	}
	if apierr.Code(nil) != codes.OK || apierr.Describe(nil) != "" || apierr.ViolationsOf(nil) != nil {
		t.Error("nil must be OK, silent and without violations")
	}
}

func TestDetails(t *testing.T) {
	conflict := wire(t, apierr.Conflict("Service", "default/web", 9, 7))
	var resource *errdetails.ResourceInfo
	for _, d := range status.Convert(conflict).Details() {
		if r, ok := d.(*errdetails.ResourceInfo); ok {
			resource = r
		}
	}
	if resource.GetResourceType() != "Service" || resource.GetResourceName() != "default/web" {
		t.Errorf("resource info: %v", resource)
	}
	if d, ok := apierr.RetryAfter(wire(t, apierr.Unavailable("x", 1500*time.Millisecond))); !ok || d != 1500*time.Millisecond {
		t.Errorf("retry after: %s %v", d, ok)
	}
	if _, ok := apierr.RetryAfter(apierr.Unavailable("x", 0)); ok {
		t.Error("no delay asked for, yet RetryInfo is there")
	}
	if rev, ok := apierr.OldestRevision(wire(t, apierr.OutOfRange("x", 1<<63))); !ok || rev != 1<<63 {
		t.Errorf("oldest revision: %d %v", rev, ok)
	}
	if _, ok := apierr.OldestRevision(conflict); ok {
		t.Error("a conflict has no oldest revision")
	}
	if !apierr.IsConflict(conflict) || apierr.IsNotFound(conflict) {
		t.Errorf("predicates on %v", conflict)
	}
}

func TestViolationsCrossTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := apierr.Violations{}
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			want.Add(rapid.StringMatching(`spec\.[a-z]+\[[0-9]\]`).Draw(t, "field"),
				rapid.SampledFrom([]string{apierr.ReasonRequired, apierr.ReasonImmutable}).Draw(t, "reason"),
				"%s", rapid.String().Draw(t, "message"))
		}
		err := status.FromProto(apierr.ToStatus(apierr.Invalid("Service", "web", want)).Proto()).Err()
		if diff := cmp.Diff(want, apierr.ViolationsOf(err)); diff != "" {
			t.Fatalf("violations changed (-want +got):\n%s", diff)
		}
	})
}

func TestInvalidKeepsItsOwnViolations(t *testing.T) {
	v := apierr.Violations{{"a", apierr.ReasonInvalid, "b"}}
	err := apierr.Invalid("Pod", "p", v)
	v[0].Field = "changed"
	if got := apierr.ViolationsOf(err)[0].Field; got != "a" {
		t.Errorf("field = %q after the caller changed its slice", got)
	}
}

func TestDescribe(t *testing.T) {
	two := apierr.Violations{{"spec.ports[0].port", apierr.ReasonInvalid, "must be 1-65535"}, {"", apierr.ReasonInvalid, "odd"}}
	tests := []struct {
		err  error
		want string
	}{
		{wire(t, apierr.Invalid("Service", "web", two)), "Service \"web\" is invalid:\n  spec.ports[0].port: must be 1-65535\n  odd"},
		{wire(t, apierr.Unavailable("no database", 2*time.Second)), "no database (try again in 2s)"},
		{fmt.Errorf("get: %w", wire(t, apierr.NotFound("Pod", "p"))), `Pod "p" not found`},
		{errors.New("open x: no such file"), "open x: no such file"},
		{apierr.Internal(errors.New("disk")), "internal error: disk"},
		{wire(t, apierr.Internal(errors.New("disk"))), "internal error"},
	}
	for _, tt := range tests {
		if got := apierr.Describe(tt.err); got != tt.want {
			t.Errorf("Describe(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
}

func ExampleViolations_Add() {
	var v apierr.Violations
	v.Add("spec.ports[0].nodePort", apierr.ReasonDuplicate, "%d is taken", 30080)
	fmt.Println(apierr.Invalid("Service", "default/web", v))
	// Output: Service "default/web" is invalid: spec.ports[0].nodePort: 30080 is taken
}

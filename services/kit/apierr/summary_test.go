package apierr_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"portolan.dev/services/kit/apierr"
)

func TestSummary(t *testing.T) {
	long := apierr.Violations{}
	for i := range 7 {
		long.Add(fmt.Sprint("spec.f", i), apierr.ReasonInvalid, "hush")
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{apierr.Invalid("Pod", "p", apierr.Violations{
			{"spec.containers[0].env[12].value", apierr.ReasonInvalid, "hush"}, {"spec.containers[1].name", apierr.ReasonInvalid, "hush"},
			{"metadata.annotations[hush].x", apierr.ReasonRequired, "hush"}, {"", apierr.ReasonInvalid, "hush"},
		}), "spec.containers: INVALID; metadata.annotations: REQUIRED; : INVALID"},
		{apierr.Invalid("Service", "s", long), "spec.f0: INVALID; spec.f1: INVALID; spec.f2: INVALID; spec.f3: INVALID; spec.f4: INVALID; and others"},
		{apierr.PermissionDenied("not yours"), "not yours"},
		{apierr.Internal(errors.New("hush")), ""},
		{errors.New("hush"), ""},
		{status.Error(codes.InvalidArgument, "hush"), ""},
		{status.Error(codes.Unavailable, "no connection"), "no connection"},
		{context.Canceled, "canceled"},
	} {
		for side, err := range map[string]error{"ours": tt.err, "received": wire(t, tt.err)} {
			if got := apierr.Summary(err); got != tt.want {
				t.Errorf("%s %v: got %q, want %q", side, tt.err, got, tt.want)
			}
		}
	}
}

// TestSummaryHasNoValues puts a secret with random text around it into messages and keys of violations.
func TestSummaryHasNoValues(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		around := rapid.StringMatching(`[][.:0-9a-z]{0,5}`)
		key := around.Draw(rt, "before") + "HUSH" + around.Draw(rt, "after")
		err := apierr.Invalid("Pod", "p", apierr.Violations{{"metadata.labels[" + key + "]", apierr.ReasonInvalid, key}})
		if got := apierr.Summary(err); strings.Contains(got, "HUSH") {
			rt.Fatalf("the key %q is in %q", key, got)
		}
	})
}

func TestCodeName(t *testing.T) {
	for code, want := range map[codes.Code]string{codes.OK: "OK", codes.PermissionDenied: "PERMISSION_DENIED", codes.NotFound: "NOT_FOUND"} {
		if got := apierr.CodeName(code); got != want {
			t.Errorf("%v: %s", code, got)
		}
	}
}

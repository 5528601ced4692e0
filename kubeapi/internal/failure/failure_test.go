package failure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/kubeapi/internal/failure"
	"portolan.dev/kubeapi/internal/resource"
	"portolan.dev/services/kit/apierr"
)

func TestStatusOf(t *testing.T) {
	services, ok := resource.Find(schema.GroupVersion{Version: "v1"}, "services")
	if !ok {
		t.Fatal("no services")
	}
	violations := apierr.Violations{
		{Field: "spec.ports[0].port", Reason: apierr.ReasonInvalid, Message: "invalid value 0: must be between 1 and 65535"},
		{Field: "metadata.name", Reason: apierr.ReasonRequired, Message: "required: names it"},
	}
	for _, c := range []struct {
		err    error
		code   int32
		reason string
		text   string
	}{
		{apierr.NotFound("Service", "default/web"), 404, "NotFound", `services "web" not found`},
		{apierr.NotFound("Namespace", "shop"), 404, "NotFound", `namespaces "shop" not found`},
		{apierr.AlreadyExists("Service", "default/web"), 409, "AlreadyExists", `services "web" already exists`},
		{
			apierr.Conflict("Service", "default/web", 5, 4), 409, "Conflict",
			`Operation cannot be fulfilled on services "web": the object has been modified; please apply your changes to the latest version and try again`,
		},
		{
			apierr.Invalid("Service", "web", violations), 422, "Invalid",
			`Service "web" is invalid: [spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, metadata.name: Required value: names it]`,
		},
		{apierr.Invalid("request", "", apierr.Violations{{Field: "label_selector", Message: "bad"}}), 400, "BadRequest", "bad"},
		{apierr.OutOfRange("gone", 7), 410, "Expired", "gone"},
		{apierr.PermissionDenied("no"), 403, "Forbidden", "no"},
		{apierr.Unauthenticated("who"), 401, "Unauthorized", "who"},
		{apierr.Exhausted("pool", "empty"), 403, "Forbidden", "empty"},
		{apierr.Throttled("rate", "slow down", 3*time.Second), 429, "TooManyRequests", "slow down"},
		{apierr.FailedPrecondition("not now"), 409, "Conflict", "not now"},
		{apierr.Unavailable("down", 0), 503, "ServiceUnavailable", "down"},
		{context.DeadlineExceeded, 504, "Timeout", "deadline exceeded"},
		{errors.New("secret"), 500, "InternalError", "internal error"},
		{fmt.Errorf("wrapped: %w", apierr.NotFound("Service", "default/web")), 404, "NotFound", `services "web" not found`},
	} {
		got := failure.StatusOf(c.err, services, "web")
		if got.Code != c.code || string(got.Reason) != c.reason || got.Message != c.text || got.Status != "Failure" || got.Kind != "Status" {
			t.Errorf("%v:\ngot  %d %s %s\nwant %d %s %s", c.err, got.Code, got.Reason, got.Message, c.code, c.reason, c.text)
		}
	}
	invalid := failure.StatusOf(apierr.Invalid("Service", "web", violations), services, "web")
	if d := invalid.Details; d == nil || len(d.Causes) != 2 || d.Causes[0].Field != "spec.ports[0].port" || d.Causes[0].Type != "FieldValueInvalid" || d.Kind != "Service" {
		t.Errorf("%+v", invalid.Details)
	}
	if throttled := failure.StatusOf(apierr.Throttled("rate", "slow down", 3*time.Second), services, ""); throttled.Details.RetryAfterSeconds != 3 {
		t.Errorf("%+v", throttled.Details)
	}
}

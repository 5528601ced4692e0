package audit_test

import (
	"testing"

	"portolan.dev/services/kit/audit"
)

func TestCodeOfHTTP(t *testing.T) {
	for status, want := range map[int]string{
		200: "OK", 304: "OK", 400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED",
		421: "PERMISSION_DENIED", 422: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 500: "UNAVAILABLE", 503: "UNAVAILABLE",
	} {
		if got := audit.CodeOfHTTP(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

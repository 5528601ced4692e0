package access_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/access"
	"portolan.dev/services/kit/identity"
)

func TestObserve(t *testing.T) {
	id := func(path string) identity.ID {
		t.Helper()
		parsed, err := identity.ParsePath("portolan", path)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, tt := range []struct {
		caller, server string
		want           codes.Code
	}{
		{"operator", "registry", codes.OK},
		{"operator/shop", "registry", codes.PermissionDenied},
		{"viewer/shop", "nodeagent/n1", codes.PermissionDenied},
		{"viewer", "registry", codes.OK},
		{"monitor", "nodeagent/n1", codes.OK},
		{"monitor/prometheus", "allocator", codes.OK},
		{"registry", "registry", codes.OK},
		{"nodeagent/n1", "nodeagent/n1", codes.OK},
		{"nodeagent/n2", "nodeagent/n1", codes.PermissionDenied},
		{"nodeagent/n1", "registry", codes.PermissionDenied},
		{"dnssvc", "registry", codes.PermissionDenied},
		{"workload/n1/default", "nodeagent/n1", codes.PermissionDenied},
		{"nats", "registry", codes.PermissionDenied},
		{"postgres", "registry", codes.PermissionDenied},
	} {
		if err := access.Observe(id(tt.caller), id(tt.server)); status.Code(err) != tt.want {
			t.Errorf("%s reads %s: %v, want %s", tt.caller, tt.server, err, tt.want)
		}
	}
}

package registry_test

import (
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
)

// TestBadInputStoresNothing sends invalid requests and checks that nothing is stored.
func TestBadInputStoresNothing(t *testing.T) {
	_, r := run(t)
	before := r.everything(t)
	many := make(map[string]string, 1_000_000)
	for n := range 1_000_000 {
		many[strconv.Itoa(n)] = ""
	}
	huge := grpc.MaxCallSendMsgSize(64 << 20)
	for name, test := range map[string]struct {
		meta *corev1.ObjectMeta
		code codes.Code
	}{
		"5 MB":             {&corev1.ObjectMeta{Name: "a", Annotations: map[string]string{"a": strings.Repeat("x", 5<<20)}}, codes.ResourceExhausted},
		"2 MB":             {&corev1.ObjectMeta{Name: "a", Annotations: map[string]string{"a": strings.Repeat("x", 2<<20)}}, codes.InvalidArgument},
		"300 kB annotated": {&corev1.ObjectMeta{Name: "a", Annotations: map[string]string{"a": strings.Repeat("x", 300<<10)}}, codes.InvalidArgument},
		"a million labels": {&corev1.ObjectMeta{Name: "a", Labels: many}, codes.ResourceExhausted},
		"invalid UTF-8":    {&corev1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b\xff"}}, codes.InvalidArgument},
		"invalid name":     {&corev1.ObjectMeta{Name: "\xff"}, codes.InvalidArgument},
		"no metadata":      {nil, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.leases.CreateLease(within(t), &registryv1.CreateLeaseRequest{Lease: &corev1.Lease{Metadata: test.meta}}, huge)
			if apierr.Code(err) != test.code {
				t.Errorf("create: %v, want %v", err, test.code)
			}
		})
	}
	if after := r.everything(t); len(after) != len(before) {
		t.Errorf("something was stored: %v", after)
	}
}

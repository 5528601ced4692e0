package registry_test

import (
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
)

// encoded is a codec for requests that are encoded already, also those that a client would refuse
// to encode.
type encoded struct{}

func (encoded) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (encoded) Unmarshal(_ []byte, _ any) error { return nil }
func (encoded) Name() string                    { return "proto" }

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
		"2 MB":             {&corev1.ObjectMeta{Name: "a", Annotations: map[string]string{"a": strings.Repeat("x", 2<<20)}}, codes.ResourceExhausted},
		"300 kB annotated": {&corev1.ObjectMeta{Name: "a", Annotations: map[string]string{"a": strings.Repeat("x", 300<<10)}}, codes.InvalidArgument},
		"a million labels": {&corev1.ObjectMeta{Name: "a", Labels: many}, codes.ResourceExhausted},
		// gRPC itself refuses a message that it cannot decode, always with INTERNAL.
		"invalid UTF-8": {&corev1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b\xff"}}, codes.Internal},
		"invalid name":  {&corev1.ObjectMeta{Name: "\xff"}, codes.Internal},
		"no metadata":   {nil, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			lease, err := (&corev1.Lease{Metadata: test.meta}).MarshalVT()
			if err != nil {
				t.Fatal(err)
			}
			request := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), lease)
			err = r.Invoke(within(t), registryv1.LeaseService_CreateLease_FullMethodName, request, nil, huge, grpc.ForceCodec(encoded{}))
			if apierr.Code(err) != test.code {
				t.Errorf("create: %v, want %v", err, test.code)
			}
		})
	}
	if after := r.everything(t); len(after) != len(before) {
		t.Errorf("something was stored: %v", after)
	}
}

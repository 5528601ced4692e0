package rpc_test

import (
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/rpc"
)

const bad = "a\xffb"

func TestTextIsFoundEverywhere(t *testing.T) {
	object := func(key string, v *structpb.Value) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{key: v}}
	}
	violation := func(f, d string) *errdetails.BadRequest_FieldViolation {
		return &errdetails.BadRequest_FieldViolation{Field: f, Description: d}
	}
	tests := []struct {
		name string
		msg  proto.Message
		want []string
	}{
		{"all well", object("ö", structpb.NewStringValue("€")), nil},
		{"empty", &structpb.Struct{}, nil},
		{"bytes may be anything", wrapperspb.Bytes([]byte(bad)), nil},
		{"field", wrapperspb.String(bad), []string{"value"}},
		{"map key", object(bad, structpb.NewNullValue()), []string{`fields["a\xffb"]`}},
		{"map value, oneof", object("k", structpb.NewStringValue(bad)), []string{`fields["k"].stringValue`}},
		{
			"lists of messages",
			&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{violation("x", ""), violation(bad, bad)}},
			[]string{"fieldViolations[1].description", "fieldViolations[1].field"},
		},
		{"lists of strings", &errdetails.DebugInfo{StackEntries: []string{"ok", bad}}, []string{"stackEntries[1]"}},
		{
			"deep", object("l", structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue(bad)}})),
			[]string{`fields["l"].listValue.values[0].stringValue`},
		},
		{"map of strings", &errdetails.ErrorInfo{Metadata: map[string]string{"k": bad}}, []string{`metadata["k"]`}},
	}
	for _, tt := range tests {
		var got []string
		for _, v := range apierr.ViolationsOf(rpc.CheckUTF8(tt.msg)) {
			if v.Reason != apierr.ReasonInvalid || v.Message == "" {
				t.Errorf("%s: violation %+v", tt.name, v)
			}
			got = append(got, v.Field)
		}
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if err := rpc.CheckUTF8("not a message"); err != nil {
		t.Errorf("not a message: %v", err)
	}
}

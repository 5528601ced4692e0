package rpc_test

import (
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/rpc"
)

const bad = "a\xffb"

// fast adds the methods of a generated message to any message. The methods are not called.
type fast struct {
	proto.Message
	*text
}

func (f fast) ProtoReflect() protoreflect.Message { return f.Message.ProtoReflect() }

func checkFast(m proto.Message) error { return rpc.CheckUTF8(fast{m, newText("")}) }

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
		for _, v := range apierr.ViolationsOf(checkFast(tt.msg)) {
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
}

func TestWhatTheStockCodecReadIsNotCheckedAgain(t *testing.T) {
	for _, m := range []any{wrapperspb.String(bad), "not a message"} {
		if err := rpc.CheckUTF8(m); err != nil {
			t.Errorf("%T: %v", m, err)
		}
	}
	if err := proto.Unmarshal([]byte("\x0a\x01\xff"), &wrapperspb.StringValue{}); err == nil {
		t.Error("the stock codec takes anything, so it must be checked")
	}
}

// TestCheckAgreesWithTheStockCodec checks that checkUTF8 refuses exactly the messages that the
// stock codec refuses to encode.
func TestCheckAgreesWithTheStockCodec(t *testing.T) {
	word := rapid.OneOf(rapid.Just("plain"), rapid.Just("größe"), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 3), func(b []byte) string { return string(b) }))
	var value func(depth int) *rapid.Generator[*structpb.Value]
	object := func(depth int) *rapid.Generator[*structpb.Struct] {
		return rapid.Map(rapid.MapOfN(word, value(depth), 0, 3), func(m map[string]*structpb.Value) *structpb.Struct {
			return &structpb.Struct{Fields: m}
		})
	}
	value = func(depth int) *rapid.Generator[*structpb.Value] {
		text := rapid.Map(word, structpb.NewStringValue)
		if depth == 0 {
			return rapid.OneOf(text, rapid.Just(structpb.NewNumberValue(1)))
		}
		return rapid.OneOf(text,
			rapid.Map(object(depth-1), structpb.NewStructValue),
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(v []*structpb.Value) *structpb.Value {
				return structpb.NewListValue(&structpb.ListValue{Values: v})
			}))
	}
	rapid.Check(t, func(t *rapid.T) {
		m := object(2).Draw(t, "message")
		_, stock := proto.Marshal(m)
		err := checkFast(m)
		if (err == nil) != (stock == nil) {
			t.Fatalf("%v: stock says %v, we say %v", m, stock, err)
		}
		if err != nil && len(apierr.ViolationsOf(err)) == 0 {
			t.Fatalf("%v does not say where", err)
		}
	})
}

// TestMalformedUnknownFields checks that a message is refused if the stock codec cannot decode its
// unknown fields, which the generated code keeps, and accepted with other unknown fields.
func TestMalformedUnknownFields(t *testing.T) {
	malformed := []byte("\xa3\x06\xac\x06") // the group 100 ends as the group 101
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"request":         {malformed, "Pod"},
		"below":           {append([]byte{0x0a, 4}, malformed...), "metadata"},
		"unknown, a text": {[]byte("\xaa\x06\x01a"), ""},
		"unknown, group":  {[]byte("\xa3\x06\xa4\x06"), ""},
	} {
		pod := &corev1.Pod{}
		if err := pod.UnmarshalVT(c.data); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err := rpc.CheckUTF8(pod)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if found := apierr.ViolationsOf(err); c.want != "" && (len(found) != 1 || found[0].Field != c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

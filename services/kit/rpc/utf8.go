package rpc

import (
	"reflect"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"portolan.dev/services/kit/apierr"
)

// checkUTF8 returns an InvalidArgument error that names all strings of a request that are not UTF-8,
// and all messages with malformed unknown fields, such as a group with the end of another group. The
// generated code keeps both. If they were stored or passed on, every program with the stock codec would
// fail to read them, and printing a message with malformed unknown fields fails too. Messages that the
// stock codec has decoded are not checked again.
//
// The check runs for every request. It therefore uses a plan per Go type instead of protoreflect,
// which would cost more than decoding the message. Protoreflect is used only to name the invalid
// strings.
func checkUTF8(req any) error {
	msg, ok := req.(interface {
		vtMessage
		proto.Message
	})
	if !ok || validText(reflect.ValueOf(req)) {
		return nil
	}
	var found apierr.Violations
	walkStrings(msg.ProtoReflect(), nil, &found)
	return apierr.Invalid(string(msg.ProtoReflect().Descriptor().Name()), "", found)
}

// plans caches the indexes of the fields that may hold text, for each struct type:
// map[reflect.Type][]int.
var plans sync.Map

// unknownFields is the name of the field in which generated messages keep unknown fields, encoded.
const unknownFields = "unknownFields"

// textFields returns the indexes of the fields of t that may hold text, and of its unknown fields.
func textFields(t reflect.Type) []int {
	if plan, ok := plans.Load(t); ok {
		return plan.([]int)
	}
	plan := []int{}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && mayHoldText(f.Type) || f.Name == unknownFields {
			plan = append(plan, i)
		}
	}
	plans.Store(t, plan)
	return plan
}

// mayHoldText reports whether a value of type t may contain text. It looks only deep enough to
// exclude numbers and bytes.
func mayHoldText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Struct, reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice:
		return mayHoldText(t.Elem())
	case reflect.Map:
		return mayHoldText(t.Key()) || mayHoldText(t.Elem())
	}
	return false
}

// validText reports whether all strings reachable from v are UTF-8 and all unknown fields well
// formed. It terminates because the fields of generated messages form a tree.
func validText(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface: // a message, an optional string or a oneof
		return v.IsNil() || validText(v.Elem())
	case reflect.Struct:
		for _, i := range textFields(v.Type()) {
			if !validText(v.Field(i)) {
				return false
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // other fields with bytes are in no plan
			return wellFormed(v.Bytes())
		}
		for i := range v.Len() {
			if !validText(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		return validMap(v)
	}
	return true
}

// wellFormed reports whether encoded fields can be decoded.
func wellFormed(fields []byte) bool {
	for len(fields) > 0 {
		_, _, n := protowire.ConsumeField(fields)
		if n < 0 {
			return false
		}
		fields = fields[n:]
	}
	return true
}

func validMap(v reflect.Value) bool {
	if v.Len() == 0 {
		return true
	}
	if m, ok := v.Interface().(map[string]string); ok { // labels; avoids an allocation per entry
		for key, value := range m {
			if !utf8.ValidString(key) || !utf8.ValidString(value) {
				return false
			}
		}
		return true
	}
	for it := v.MapRange(); it.Next(); {
		if !validText(it.Key()) || (mayHoldText(v.Type().Elem()) && !validText(it.Value())) {
			return false
		}
	}
	return true
}

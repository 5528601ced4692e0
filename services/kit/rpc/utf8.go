package rpc

import (
	"reflect"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"portolan.dev/services/kit/apierr"
)

// checkUTF8 returns InvalidArgument naming every string of a request that is not
// UTF-8. Text that is not could be stored, and then break every client that
// reads it with the stock codec. Messages that the stock codec read were checked
// by it.
//
// Every request pays for this, so what looks is not protoreflect, which costs
// more than reading the message did, but a plan per Go type. Protoreflect then
// names what is wrong.
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

// plans has the textual fields of each struct that was met: map[reflect.Type][]int.
var plans sync.Map

// textFields returns the indexes of the fields of t that may hold text.
func textFields(t reflect.Type) []int {
	if plan, ok := plans.Load(t); ok {
		return plan.([]int)
	}
	plan := []int{}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && mayHoldText(f.Type) {
			plan = append(plan, i)
		}
	}
	plans.Store(t, plan)
	return plan
}

// mayHoldText looks only as deep as it must to leave out numbers and bytes.
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

// validText tells whether all strings reachable from v are UTF-8. The fields of
// generated messages form a tree, so this ends.
func validText(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface: // a message, an optional string, a oneof
		return v.IsNil() || validText(v.Elem())
	case reflect.Struct:
		for _, i := range textFields(v.Type()) {
			if !validText(v.Field(i)) {
				return false
			}
		}
	case reflect.Slice:
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

func validMap(v reflect.Value) bool {
	if v.Len() == 0 {
		return true
	}
	if m, ok := v.Interface().(map[string]string); ok { // labels, without an allocation per entry
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

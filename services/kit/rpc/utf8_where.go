package rpc

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"portolan.dev/services/kit/apierr"
)

// walkStrings adds a violation for each string below m that is not UTF-8, and for each message with
// malformed unknown fields.
func walkStrings(m protoreflect.Message, path func() string, found *apierr.Violations) {
	if !wellFormed(m.GetUnknown()) {
		reportUnknown(m, path, found)
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		here := func() string { return join(path, fd) }
		switch {
		case fd.IsMap():
			walkMap(fd, v.Map(), here, found)
		case !isText(fd):
		case fd.IsList():
			for i, list := 0, v.List(); i < list.Len(); i++ {
				walkValue(fd, list.Get(i), func() string { return fmt.Sprintf("%s[%d]", here(), i) }, found)
			}
		default:
			walkValue(fd, v, here, found)
		}
		return true
	})
}

func walkMap(fd protoreflect.FieldDescriptor, m protoreflect.Map, path func() string, found *apierr.Violations) {
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		here := func() string { return fmt.Sprintf("%s[%q]", path(), k.String()) }
		if isText(fd.MapKey()) && !utf8.ValidString(k.String()) {
			report(here, found)
		}
		if isText(fd.MapValue()) {
			walkValue(fd.MapValue(), v, here, found)
		}
		return true
	})
}

func walkValue(fd protoreflect.FieldDescriptor, v protoreflect.Value, path func() string, found *apierr.Violations) {
	if fd.Kind() != protoreflect.StringKind {
		walkStrings(v.Message(), path, found)
		return
	}
	if !utf8.ValidString(v.String()) {
		report(path, found)
	}
}

// isText reports whether the field may contain strings.
func isText(fd protoreflect.FieldDescriptor) bool {
	switch fd.Kind() {
	case protoreflect.StringKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return true
	}
	return false
}

func report(path func() string, found *apierr.Violations) {
	found.Add(path(), apierr.ReasonInvalid, "must be valid UTF-8")
}

// reportUnknown adds a violation for a message. The request itself is named by its type.
func reportUnknown(m protoreflect.Message, path func() string, found *apierr.Violations) {
	field := string(m.Descriptor().Name())
	if path != nil {
		field = path()
	}
	found.Add(field, apierr.ReasonInvalid, "has unknown fields that cannot be decoded")
}

// join appends the name of the field to a path. Paths are functions, so that they are built only
// for violations.
func join(path func() string, fd protoreflect.FieldDescriptor) string {
	if path == nil {
		return fd.JSONName()
	}
	return path() + "." + fd.JSONName()
}

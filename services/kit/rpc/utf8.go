package rpc

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"portolan.dev/services/kit/apierr"
)

// checkUTF8 returns InvalidArgument naming every string of a request that is not
// UTF-8. Text that is not could be stored, and then break every client that
// reads it with the stock codec.
func checkUTF8(req any) error {
	msg, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	var found apierr.Violations
	walkStrings(msg.ProtoReflect(), nil, &found)
	if len(found) == 0 {
		return nil
	}
	return apierr.Invalid(string(msg.ProtoReflect().Descriptor().Name()), "", found)
}

// walkStrings visits all strings below m. Paths are only put together for what
// is wrong, which keeps the ordinary case free of allocations of ours.
func walkStrings(m protoreflect.Message, path func() string, found *apierr.Violations) {
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
	textKey, textValue := isText(fd.MapKey()), isText(fd.MapValue())
	if !textKey && !textValue {
		return
	}
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		here := func() string { return fmt.Sprintf("%s[%q]", path(), k.String()) }
		if textKey && !utf8.ValidString(k.String()) {
			report(here, found)
		}
		if textValue {
			walkValue(fd.MapValue(), v, here, found)
		}
		return true
	})
}

func walkValue(fd protoreflect.FieldDescriptor, v protoreflect.Value, path func() string, found *apierr.Violations) {
	if fd.Kind() == protoreflect.StringKind {
		if !utf8.ValidString(v.String()) {
			report(path, found)
		}
		return
	}
	walkStrings(v.Message(), path, found)
}

// isText tells whether strings can be found under the field.
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

func join(path func() string, fd protoreflect.FieldDescriptor) string {
	if path == nil {
		return fd.JSONName()
	}
	return path() + "." + fd.JSONName()
}

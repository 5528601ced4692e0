package contract

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// breaksOf returns one line for each way in which a contract breaks an older contract of the same
// files. It looks up the new descriptors in now by their full names.
func breaksOf(old []protoreflect.FileDescriptor, now func(protoreflect.FullName) protoreflect.Descriptor) []string {
	c := &comparison{now: now}
	for _, file := range old {
		c.messages(file.Messages())
		c.enums(file.Enums())
		c.services(file.Services())
	}
	return c.breaks
}

type comparison struct {
	now    func(protoreflect.FullName) protoreflect.Descriptor
	breaks []string
}

func (c *comparison) broken(d protoreflect.Descriptor, format string, args ...any) {
	c.breaks = append(c.breaks, fmt.Sprintf("%s: ", d.FullName())+fmt.Sprintf(format, args...))
}

// find returns the new descriptor for an old one, and reports whether it exists and has the same
// kind.
func find[D protoreflect.Descriptor](c *comparison, old D) (D, bool) {
	now, ok := c.now(old.FullName()).(D)
	if !ok {
		c.broken(old, "it is gone")
	}
	return now, ok
}

func (c *comparison) messages(list protoreflect.MessageDescriptors) {
	for i := range list.Len() {
		old := list.Get(i)
		now, ok := find(c, old)
		if !ok || old.IsMapEntry() {
			continue
		}
		fields := old.Fields()
		for j := range fields.Len() {
			c.field(fields.Get(j), now)
		}
		c.reserved(old, now)
		c.messages(old.Messages())
		c.enums(old.Enums())
	}
}

func (c *comparison) field(old protoreflect.FieldDescriptor, message protoreflect.MessageDescriptor) {
	now := message.Fields().ByNumber(old.Number())
	if now == nil {
		c.broken(old, "field %d is gone", old.Number())
		return
	}
	for _, rule := range []struct{ what, was, is string }{
		{"name", string(old.Name()), string(now.Name())},
		{"name in JSON", old.JSONName(), now.JSONName()},
		{"type", typeOf(old), typeOf(now)},
		{"cardinality", old.Cardinality().String(), now.Cardinality().String()},
		{"oneof", oneofOf(old), oneofOf(now)},
		{"presence", fmt.Sprint(old.HasPresence()), fmt.Sprint(now.HasPresence())},
	} {
		if rule.was != rule.is {
			c.broken(old, "the %s of field %d was %s and is %s", rule.what, old.Number(), rule.was, rule.is)
		}
	}
}

// typeOf returns the name of a field's type.
func typeOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map<%s, %s>", typeOf(f.MapKey()), typeOf(f.MapValue()))
	case f.Message() != nil:
		return string(f.Message().FullName())
	case f.Enum() != nil:
		return string(f.Enum().FullName())
	}
	return f.Kind().String()
}

// oneofOf returns the name of a field's oneof, or "none".
func oneofOf(f protoreflect.FieldDescriptor) string {
	if oneof := f.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
		return string(oneof.Name())
	}
	return "none"
}

// reserved checks that reserved numbers and names stay reserved, because a removed field must not
// be replaced by another one.
func (c *comparison) reserved(old, now protoreflect.MessageDescriptor) {
	ranges := old.ReservedRanges()
	for i := range ranges.Len() {
		for n := ranges.Get(i)[0]; n < ranges.Get(i)[1]; n++ {
			if !now.ReservedRanges().Has(n) {
				c.broken(old, "field number %d is no longer reserved", n)
				break // a range may end at the largest possible number
			}
		}
	}
	names := old.ReservedNames()
	for i := range names.Len() {
		if !now.ReservedNames().Has(names.Get(i)) {
			c.broken(old, "field name %s is no longer reserved", names.Get(i))
		}
	}
}

func (c *comparison) enums(list protoreflect.EnumDescriptors) {
	for i := range list.Len() {
		old := list.Get(i)
		now, ok := find(c, old)
		if !ok {
			continue
		}
		values := old.Values()
		for j := range values.Len() {
			was := values.Get(j)
			if is := now.Values().ByName(was.Name()); is == nil || is.Number() != was.Number() {
				c.broken(old, "value %s = %d is gone", was.Name(), was.Number())
			}
		}
	}
}

func (c *comparison) services(list protoreflect.ServiceDescriptors) {
	for i := range list.Len() {
		old := list.Get(i)
		now, ok := find(c, old)
		if !ok {
			continue
		}
		methods := old.Methods()
		for j := range methods.Len() {
			was := methods.Get(j)
			is := now.Methods().ByName(was.Name())
			if is == nil {
				c.broken(was, "it is gone")
			} else if signature(was) != signature(is) {
				c.broken(was, "it was %s and is %s", signature(was), signature(is))
			}
		}
	}
}

func signature(m protoreflect.MethodDescriptor) string {
	stream := map[bool]string{true: "stream "}
	return fmt.Sprintf("(%s%s) returns (%s%s)", stream[m.IsStreamingClient()], m.Input().FullName(), stream[m.IsStreamingServer()], m.Output().FullName())
}

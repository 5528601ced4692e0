package object

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	corev1 "portolan.dev/api/core/v1"
)

// Object is an object of any kind.
type Object interface {
	proto.Message
	GetMetadata() *corev1.ObjectMeta
}

// KindOf returns the name of the object's kind, such as "Service".
func KindOf(o Object) string { return string(o.ProtoReflect().Descriptor().Name()) }

// MetaOf returns the object's metadata, and creates it if the object has none.
func MetaOf(o Object) *corev1.ObjectMeta {
	if meta := o.GetMetadata(); meta != nil {
		return meta
	}
	meta := &corev1.ObjectMeta{}
	m := o.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("metadata"), protoreflect.ValueOfMessage(meta.ProtoReflect()))
	return meta
}

// Clone returns a deep copy.
func Clone[T Object](o T) T {
	if fast, ok := any(o).(interface{ CloneMessageVT() proto.Message }); ok {
		copied, _ := fast.CloneMessageVT().(T)
		return copied
	}
	copied, _ := proto.Clone(o).(T)
	return copied
}

// Equal reports whether two objects are equal in every field, metadata included.
func Equal(a, b Object) bool { return proto.Equal(a, b) }

// Wrap returns an envelope with the object, without copying it. It returns nil if the message is
// not an object of a known kind.
func Wrap(o Object) *corev1.Object {
	field, ok := envelopeFields[o.ProtoReflect().Descriptor().FullName()]
	if !ok {
		return nil
	}
	envelope := &corev1.Object{}
	envelope.ProtoReflect().Set(field, protoreflect.ValueOfMessage(o.ProtoReflect()))
	return envelope
}

// Unwrap returns the object of an envelope, without copying it. It returns nil if the envelope is
// empty or has an object of an unknown kind.
func Unwrap(envelope *corev1.Object) Object {
	m := envelope.ProtoReflect()
	field := m.WhichOneof(envelopeOneof)
	if field == nil {
		return nil
	}
	o, _ := m.Get(field).Message().Interface().(Object)
	return o
}

var (
	envelopeOneof  = (*corev1.Object)(nil).ProtoReflect().Descriptor().Oneofs().ByName("kind")
	envelopeFields = fieldsByMessage(envelopeOneof)
)

func fieldsByMessage(oneof protoreflect.OneofDescriptor) map[protoreflect.FullName]protoreflect.FieldDescriptor {
	fields := make(map[protoreflect.FullName]protoreflect.FieldDescriptor, oneof.Fields().Len())
	for i := range oneof.Fields().Len() {
		field := oneof.Fields().Get(i)
		fields[field.Message().FullName()] = field
	}
	return fields
}

package apply

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	corev1 "portolan.dev/api/core/v1"
)

// mergeStrategy is the way in which a field is merged.
type mergeStrategy int

const (
	whole    mergeStrategy = iota // as one value
	message                       // field by field
	entries                       // a map, by key
	set                           // a list of texts, by item
	itemList                      // a list of messages, by the keys of its items
)

// itemKeys lists the fields that identify an item of a list, by the type of the items.
var itemKeys = map[protoreflect.FullName][]protoreflect.Name{
	nameOf(&corev1.ServicePort{}):    {"port", "protocol"},
	nameOf(&corev1.Container{}):      {"name"},
	nameOf(&corev1.ContainerPort{}):  {"container_port", "protocol"},
	nameOf(&corev1.EnvVar{}):         {"name"},
	nameOf(&corev1.OwnerReference{}): {"uid"},
	nameOf(&corev1.Condition{}):      {"type"},
	nameOf(&corev1.NodeAddress{}):    {"type"},
}

func nameOf(m proto.Message) protoreflect.FullName { return m.ProtoReflect().Descriptor().FullName() }

// metaName is the name of the message of the metadata.
var metaName = nameOf(&corev1.ObjectMeta{})

// values lists the messages that are merged as one value, also as items of a list.
var values = map[protoreflect.FullName]bool{
	nameOf(&corev1.IntOrString{}): true, nameOf(&corev1.ObjectReference{}): true, nameOf(&corev1.OwnerReference{}): true,
}

// isValue reports whether a message is merged as one value.
func isValue(m protoreflect.Message) bool { return values[m.Descriptor().FullName()] }

// strategyOverrides has the strategies that do not follow from the field's type. A selector has a
// meaning only as a whole. Finalizers are independent of each other, and so are networks.
var strategyOverrides = map[protoreflect.FullName]mergeStrategy{
	nameOf(&corev1.ServiceSpec{}).Append("selector"):  whole,
	nameOf(&corev1.ObjectMeta{}).Append("finalizers"): set,
	nameOf(&corev1.NodeSpec{}).Append("pod_cidrs"):    set,
}

func strategyOf(field protoreflect.FieldDescriptor) mergeStrategy {
	if strategy, ok := strategyOverrides[field.FullName()]; ok {
		return strategy
	}
	switch {
	case field.IsMap():
		return entries
	case field.IsList():
		if field.Message() != nil && itemKeys[field.Message().FullName()] != nil {
			return itemList
		}
		return whole
	case field.Message() == nil || values[field.Message().FullName()] || field.Message().ParentFile().Package() == "google.protobuf":
		return whole
	default:
		return message
	}
}

// appliedMeta lists the fields of the metadata that a manifest can set.
var appliedMeta = map[protoreflect.Name]bool{"labels": true, "annotations": true, "finalizers": true, "owner_references": true}

// notApplied reports whether a field of the metadata cannot be set by a manifest.
func notApplied(field protoreflect.FieldDescriptor) bool {
	return field.ContainingMessage().FullName() == metaName && !appliedMeta[field.Name()]
}

// fieldsToApply yields the top-level fields that a manifest can set: all except status.
func fieldsToApply(object protoreflect.MessageDescriptor) func(func(protoreflect.FieldDescriptor) bool) {
	return func(yield func(protoreflect.FieldDescriptor) bool) {
		for i := range object.Fields().Len() {
			if field := object.Fields().Get(i); field.Name() != "status" && !yield(field) {
				return
			}
		}
	}
}

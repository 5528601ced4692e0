package apply

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Manager is the manager's name in the managed fields of ApplyService.
const Manager = "apply"

// FieldsOf returns the sorted paths of the fields that an object sets, without status and the
// fields of the object's identity.
func FieldsOf(o object.Object) []string {
	var paths []string
	m := o.ProtoReflect()
	for field := range fieldsToApply(m.Descriptor()) {
		collect(m, field, "", func(path string) { paths = append(paths, path) })
	}
	slices.Sort(paths)
	return paths
}

// Remembered returns the paths of the last applied manifest. It reports whether the object was ever
// applied.
func Remembered(o object.Object) ([]string, bool) {
	for _, entry := range o.GetMetadata().GetManagedFields() {
		if entry.GetManager() == Manager {
			return entry.GetFields(), true
		}
	}
	return nil, false
}

// Remember returns the managed fields of an object after a manifest with these paths was applied to
// it.
func Remember(before []*corev1.ManagedFields, paths []string) []*corev1.ManagedFields {
	var after []*corev1.ManagedFields
	for _, entry := range before {
		if entry.GetManager() != Manager {
			after = append(after, proto.CloneOf(entry))
		}
	}
	return append(after, &corev1.ManagedFields{Manager: Manager, Fields: paths})
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

// appliedMeta lists the fields of the metadata that a manifest can set.
var appliedMeta = map[protoreflect.Name]bool{"labels": true, "annotations": true, "finalizers": true, "owner_references": true}

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
}

func nameOf(m proto.Message) protoreflect.FullName { return m.ProtoReflect().Descriptor().FullName() }

// The names of messages that are treated in a special way.
var (
	metaName        = nameOf(&corev1.ObjectMeta{})
	intOrStringName = nameOf(&corev1.IntOrString{})
)

// strategyOverrides lists the fields whose strategy does not follow from their type. A selector has
// a meaning only as a whole; finalizers are independent of each other.
var strategyOverrides = map[protoreflect.FullName]mergeStrategy{
	nameOf(&corev1.ServiceSpec{}).Append("selector"):  whole,
	nameOf(&corev1.ObjectMeta{}).Append("finalizers"): set,
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
	case field.Message() == nil || field.Message().FullName() == intOrStringName ||
		field.Message().ParentFile().Package() == "google.protobuf":
		return whole
	default:
		return message
	}
}

// notApplied reports whether a field of the metadata cannot be set by a manifest.
func notApplied(field protoreflect.FieldDescriptor) bool {
	return field.ContainingMessage().FullName() == metaName && !appliedMeta[field.Name()]
}

// collect calls add with the paths of a field and its subfields, as far as m sets them.
func collect(m protoreflect.Message, field protoreflect.FieldDescriptor, parent string, add func(string)) {
	if !m.Has(field) || notApplied(field) {
		return
	}
	path := join(parent, field)
	switch strategyOf(field) {
	case whole:
		add(path)
	case message:
		collectBelow(m.Get(field).Message(), nil, path, add)
	case entries:
		for key := range m.Get(field).Map().Range {
			add(item(path, key.String()))
		}
	case set:
		for i := range m.Get(field).List().Len() {
			add(item(path, m.Get(field).List().Get(i).String()))
		}
	case itemList:
		for i := range m.Get(field).List().Len() {
			one := m.Get(field).List().Get(i).Message()
			name := item(path, keyOf(one))
			add(name)
			collectBelow(one, itemKeys[one.Descriptor().FullName()], name, add)
		}
	}
}

// collectBelow collects the fields of a message, except the keys, which are part of its path
// already.
func collectBelow(m protoreflect.Message, keys []protoreflect.Name, path string, add func(string)) {
	for i := range m.Descriptor().Fields().Len() {
		if field := m.Descriptor().Fields().Get(i); !slices.Contains(keys, field.Name()) {
			collect(m, field, path, add)
		}
	}
}

// keyOf returns the key of an item, such as "main" or "80/TCP".
func keyOf(m protoreflect.Message) string {
	var parts []string
	for _, name := range itemKeys[m.Descriptor().FullName()] {
		field := m.Descriptor().Fields().ByName(name)
		if field.Enum() == nil {
			parts = append(parts, m.Get(field).String())
			continue
		}
		protocol := corev1.Protocol(m.Get(field).Enum())
		if protocol == corev1.Protocol_PROTOCOL_UNSPECIFIED {
			protocol = corev1.Protocol_PROTOCOL_TCP
		}
		parts = append(parts, spec.EnumName(protocol))
	}
	return strings.Join(parts, "/")
}

func join(parent string, field protoreflect.FieldDescriptor) string {
	if parent == "" {
		return field.JSONName()
	}
	return parent + "." + field.JSONName()
}

func item(path, key string) string { return path + "[" + key + "]" }

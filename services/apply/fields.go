package apply

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// FieldsOf returns the fields that an object sets, without status and the fields of the object's
// identity.
func FieldsOf(o object.Object) *fieldpath.Set {
	fields := fieldpath.NewSet()
	m := o.ProtoReflect()
	for field := range fieldsToApply(m.Descriptor()) {
		collect(m, field, nil, func(at place) { fields.Insert(at.path()) })
	}
	return fields
}

// step is a field, or an item of a list or a map.
type step struct {
	field   protoreflect.FieldDescriptor // nil: an item
	element fieldpath.PathElement
	key     string // of an item, as earlier releases wrote it
}

// place is the place of a value in an object.
type place []step

// in returns the place of a field of the message at p.
func (p place) in(field protoreflect.FieldDescriptor) place {
	return append(p, step{field: field, element: elementOf(field)})
}

// entry returns the place of an entry of the map at p.
func (p place) entry(key string) place {
	return append(p, step{element: fieldpath.FieldNameElement(key), key: key})
}

// text returns the place of an item of the list of texts at p.
func (p place) text(item string) place {
	return append(p, step{element: fieldpath.ValueElement(value.NewValueInterface(item)), key: item})
}

// item returns the place of an item of the list of messages at p.
func (p place) item(m keyed) place { return append(p, step{element: m.element, key: m.key}) }

// path returns the place by Kubernetes' names.
func (p place) path() fieldpath.Path {
	if last := p[len(p)-1].field; last != nil {
		if path, ok := elsewhere[last.FullName()]; ok {
			return path
		}
	}
	path := make(fieldpath.Path, len(p))
	for i := range p {
		path[i] = p[i].element
	}
	return path
}

// collect calls add with the places of a field and its subfields, as far as m sets them.
func collect(m protoreflect.Message, field protoreflect.FieldDescriptor, parent place, add func(place)) {
	if !m.Has(field) || notApplied(field) {
		return
	}
	at := parent.in(field)
	switch strategyOf(field) {
	case whole:
		add(at)
	case message:
		collectBelow(m.Get(field).Message(), at, add)
	case entries:
		for key := range m.Get(field).Map().Range {
			add(at.entry(key.String()))
		}
	case set:
		for i := range m.Get(field).List().Len() {
			add(at.text(m.Get(field).List().Get(i).String()))
		}
	case itemList:
		for i := range m.Get(field).List().Len() {
			one := keyOf(m.Get(field).List().Get(i).Message())
			add(at.item(one))
			if !isValue(one.message) {
				collectBelow(one.message, at.item(one), add)
			}
		}
	}
}

// collectBelow collects the fields of a message.
func collectBelow(m protoreflect.Message, at place, add func(place)) {
	for i := range m.Descriptor().Fields().Len() {
		collect(m, m.Descriptor().Fields().Get(i), at, add)
	}
}

// keyed is an item of a list with its key in two forms: the format of earlier releases, such as "main" or
// "80/TCP", and a path element.
type keyed struct {
	key     string
	element fieldpath.PathElement
	message protoreflect.Message
}

// keyOf returns an item with its key.
func keyOf(m protoreflect.Message) keyed {
	one := keyed{message: m}
	names := itemKeys[m.Descriptor().FullName()]
	fields := make(value.FieldList, 0, len(names))
	for i, name := range names {
		field := m.Descriptor().Fields().ByName(name)
		text, typed := keyField(m, field)
		if i > 0 {
			one.key += "/"
		}
		one.key += text
		fields = append(fields, value.Field{Name: *elementOf(field).FieldName, Value: value.NewValueInterface(typed)})
	}
	slices.SortFunc(fields, func(a, b value.Field) int { return strings.Compare(a.Name, b.Name) })
	one.element = fieldpath.PathElement{Key: &fields}
	return one
}

// keyField returns the value of a field of a key, as a text and as a value for a path element. It returns
// TCP for a protocol that is not set.
func keyField(m protoreflect.Message, field protoreflect.FieldDescriptor) (text string, typed any) {
	switch {
	case field.Enum() != nil:
		protocol := corev1.Protocol(m.Get(field).Enum())
		if protocol == corev1.Protocol_PROTOCOL_UNSPECIFIED {
			protocol = corev1.Protocol_PROTOCOL_TCP
		}
		text = spec.EnumName(protocol)
		return text, text
	case field.Kind() == protoreflect.StringKind:
		text = m.Get(field).String()
		return text, text
	default:
		return m.Get(field).String(), m.Get(field).Int()
	}
}

// byKey returns the items of a list, and reports whether all keys are unique.
func byKey(list protoreflect.List) (items []keyed, unique bool) {
	seen := make(map[string]bool, list.Len())
	for i := range list.Len() {
		one := keyOf(list.Get(i).Message())
		seen[one.key] = true
		items = append(items, one)
	}
	return items, len(seen) == len(items)
}

// named returns the index of the item with a key, or -1.
func named(items []keyed, key string) int {
	return slices.IndexFunc(items, func(one keyed) bool { return one.key == key })
}

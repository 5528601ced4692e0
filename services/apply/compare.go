package apply

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"portolan.dev/services/object"
)

// changedFields returns the fields in which two versions of an object differ, status included. An
// item of a list that only one of them has is listed without its fields.
func changedFields(before, after object.Object) *fieldpath.Set {
	c := comparison{fieldpath.NewSet()}
	c.messages(before.ProtoReflect(), after.ProtoReflect(), nil)
	return c.changed
}

// comparison collects the fields in which two messages differ.
type comparison struct{ changed *fieldpath.Set }

func (c comparison) add(at place) { c.changed.Insert(at.path()) }

func (c comparison) messages(a, b protoreflect.Message, at place) {
	for i := range a.Descriptor().Fields().Len() {
		if field := a.Descriptor().Fields().Get(i); (a.Has(field) || b.Has(field)) && !notApplied(field) {
			c.field(a, b, field, at.in(field))
		}
	}
}

func (c comparison) field(a, b protoreflect.Message, field protoreflect.FieldDescriptor, at place) {
	switch strategyOf(field) {
	case whole:
		if a.Has(field) != b.Has(field) || !a.Get(field).Equal(b.Get(field)) {
			c.add(at)
		}
	case message:
		c.messages(a.Get(field).Message(), b.Get(field).Message(), at)
	case entries:
		c.maps(a.Get(field).Map(), b.Get(field).Map(), at)
	case set:
		c.texts(a.Get(field).List(), b.Get(field).List(), at)
		c.texts(b.Get(field).List(), a.Get(field).List(), at)
	case itemList:
		c.items(a.Get(field).List(), b.Get(field).List(), at)
	}
}

func (c comparison) maps(a, b protoreflect.Map, at place) {
	for key, value := range a.Range {
		if !b.Has(key) || !b.Get(key).Equal(value) {
			c.add(at.entry(key.String()))
		}
	}
	for key := range b.Range {
		if !a.Has(key) {
			c.add(at.entry(key.String()))
		}
	}
}

// texts adds the texts that only the first list has.
func (c comparison) texts(a, b protoreflect.List, at place) {
	other := make(map[string]bool, b.Len())
	for i := range b.Len() {
		other[b.Get(i).String()] = true
	}
	for i := range a.Len() {
		if text := a.Get(i).String(); !other[text] {
			c.add(at.text(text))
		}
	}
}

// items compares two lists by the keys of their items. Lists with a key twice are compared as a whole.
func (c comparison) items(a, b protoreflect.List, at place) {
	before, unique := byKey(a)
	after, alsoUnique := byKey(b)
	if !unique || !alsoUnique {
		if !protoreflect.ValueOfList(a).Equal(protoreflect.ValueOfList(b)) {
			c.add(at)
		}
		return
	}
	for _, one := range before {
		switch i := named(after, one.key); {
		case i < 0 || isValue(one.message) && !proto.Equal(one.message.Interface(), after[i].message.Interface()):
			c.add(at.item(one))
		case !isValue(one.message):
			c.messages(one.message, after[i].message, at.item(one))
		}
	}
	for _, one := range after {
		if named(before, one.key) < 0 {
			c.add(at.item(one))
		}
	}
}

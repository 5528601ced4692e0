package apply

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"portolan.dev/services/object"
)

// Merge returns the result of applying the manifest to the stored object. It modifies neither of the
// two. The uid and the resource version come from the manifest, because they identify the version
// that the client has read.
func (a *Application) Merge(stored object.Object) object.Object {
	merged, wanted := object.Clone(stored), object.Clone(a.manifest)
	meta := object.MetaOf(merged)
	meta.Uid, meta.ResourceVersion = wanted.GetMetadata().GetUid(), wanted.GetMetadata().GetResourceVersion()
	m := &merger{removed: a.removed(a.ownersOf(stored))}
	for field := range fieldsToApply(merged.ProtoReflect().Descriptor()) {
		m.field(merged.ProtoReflect(), wanted.ProtoReflect(), field, nil)
	}
	return merged
}

// merger merges one manifest.
type merger struct {
	removed *fieldpath.Set // the fields to remove
}

func (m *merger) removes(at place) bool { return !m.removed.Empty() && m.removed.Has(at.path()) }

func (m *merger) field(to, from protoreflect.Message, field protoreflect.FieldDescriptor, parent place) {
	if !to.Has(field) && !from.Has(field) || notApplied(field) {
		return
	}
	at := parent.in(field)
	switch strategyOf(field) {
	case whole:
		m.whole(to, from, field, at)
	case message:
		m.message(to, from, field, at)
	case entries:
		m.entries(to, from, field, at)
	case set:
		m.set(to, from, field, at)
	case itemList:
		m.items(to, from, field, at)
	}
}

func (m *merger) whole(to, from protoreflect.Message, field protoreflect.FieldDescriptor, at place) {
	switch {
	case from.Has(field):
		to.Set(field, from.Get(field))
	case m.removes(at):
		to.Clear(field)
	}
}

func (m *merger) message(to, from protoreflect.Message, field protoreflect.FieldDescriptor, at place) {
	below := to.Mutable(field).Message()
	before := proto.Size(below.Interface())
	m.below(below, from.Get(field).Message(), at)
	if !from.Has(field) && before > 0 && proto.Size(below.Interface()) == 0 {
		to.Clear(field)
	}
}

func (m *merger) below(to, from protoreflect.Message, at place) {
	for i := range to.Descriptor().Fields().Len() {
		m.field(to, from, to.Descriptor().Fields().Get(i), at)
	}
}

func (m *merger) entries(to, from protoreflect.Message, field protoreflect.FieldDescriptor, at place) {
	stored, wanted := to.Mutable(field).Map(), from.Get(field).Map()
	for key := range stored.Range {
		if !wanted.Has(key) && m.removes(at.entry(key.String())) {
			stored.Clear(key)
		}
	}
	for key, value := range wanted.Range {
		stored.Set(key, value)
	}
}

func (m *merger) set(to, from protoreflect.Message, field protoreflect.FieldDescriptor, at place) {
	wanted := from.Get(field).List()
	var texts []string
	for i := range wanted.Len() {
		texts = append(texts, wanted.Get(i).String())
	}
	stored := to.Mutable(field).List()
	kept := to.NewField(field).List()
	for i := range stored.Len() {
		text := stored.Get(i).String()
		if n := slices.Index(texts, text); n >= 0 {
			texts = slices.Delete(texts, n, n+1)
		} else if m.removes(at.text(text)) {
			continue
		}
		kept.Append(stored.Get(i))
	}
	for _, text := range texts {
		kept.Append(protoreflect.ValueOfString(text))
	}
	to.Set(field, protoreflect.ValueOfList(kept))
}

// items merges a list by the keys of its items: first the manifest's items in their order, then the
// others. If the manifest has a key twice, its list is taken unchanged, so that validation reports
// the mistake.
func (m *merger) items(to, from protoreflect.Message, field protoreflect.FieldDescriptor, at place) {
	wanted, unique := byKey(from.Get(field).List())
	if !unique {
		to.Set(field, from.Get(field))
		return
	}
	stored, _ := byKey(to.Get(field).List())
	merged := to.NewField(field).List()
	for _, one := range wanted {
		if n := named(stored, one.key); n >= 0 {
			if !isValue(one.message) {
				m.below(stored[n].message, one.message, at.item(one))
				one.message = stored[n].message
			}
			stored = slices.Delete(stored, n, n+1)
		}
		merged.Append(protoreflect.ValueOfMessage(one.message))
	}
	for _, one := range stored {
		if !m.removes(at.item(one)) {
			m.trim(one, at.item(one))
			merged.Append(protoreflect.ValueOfMessage(one.message))
		}
	}
	to.Set(field, protoreflect.ValueOfList(merged))
}

// trim removes fields from an item that stays because another manager owns it. Its key stays.
func (m *merger) trim(one keyed, at place) {
	if m.removed.Empty() || isValue(one.message) {
		return
	}
	fields, keys := one.message.Descriptor().Fields(), itemKeys[one.message.Descriptor().FullName()]
	for i := range fields.Len() {
		if field := fields.Get(i); !slices.Contains(keys, field.Name()) {
			m.field(one.message, one.message.Type().Zero(), field, at)
		}
	}
}

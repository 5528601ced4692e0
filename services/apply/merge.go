package apply

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"portolan.dev/services/object"
)

// Merge returns the result of applying a manifest to the stored object. It modifies neither of the
// two. The uid and the resource version come from the manifest, because they identify the version
// that the client has read.
func Merge(stored, manifest object.Object) object.Object {
	merged, wanted := object.Clone(stored), object.Clone(manifest)
	meta := object.MetaOf(merged)
	meta.Uid, meta.ResourceVersion = wanted.GetMetadata().GetUid(), wanted.GetMetadata().GetResourceVersion()
	paths, _ := Remembered(stored)
	m := &merger{before: make(map[string]bool, len(paths))}
	for _, path := range paths {
		m.before[path] = true
	}
	for field := range fieldsToApply(merged.ProtoReflect().Descriptor()) {
		m.field(merged.ProtoReflect(), wanted.ProtoReflect(), field, "")
	}
	return merged
}

// merger merges one manifest. Its field before holds the paths of the last applied manifest.
type merger struct{ before map[string]bool }

func (m *merger) field(to, from protoreflect.Message, field protoreflect.FieldDescriptor, parent string) {
	if !to.Has(field) && !from.Has(field) || notApplied(field) {
		return
	}
	path := join(parent, field)
	switch strategyOf(field) {
	case whole:
		m.whole(to, from, field, path)
	case message:
		m.message(to, from, field, path)
	case entries:
		m.entries(to, from, field, path)
	case set:
		m.set(to, from, field, path)
	case itemList:
		m.items(to, from, field, path)
	}
}

func (m *merger) whole(to, from protoreflect.Message, field protoreflect.FieldDescriptor, path string) {
	switch {
	case from.Has(field):
		to.Set(field, from.Get(field))
	case m.before[path]:
		to.Clear(field)
	}
}

func (m *merger) message(to, from protoreflect.Message, field protoreflect.FieldDescriptor, path string) {
	below := to.Mutable(field).Message()
	before := proto.Size(below.Interface())
	m.below(below, from.Get(field).Message(), path)
	if !from.Has(field) && before > 0 && proto.Size(below.Interface()) == 0 {
		to.Clear(field)
	}
}

func (m *merger) below(to, from protoreflect.Message, path string) {
	for i := range to.Descriptor().Fields().Len() {
		m.field(to, from, to.Descriptor().Fields().Get(i), path)
	}
}

func (m *merger) entries(to, from protoreflect.Message, field protoreflect.FieldDescriptor, path string) {
	stored, wanted := to.Mutable(field).Map(), from.Get(field).Map()
	for key := range stored.Range {
		if !wanted.Has(key) && m.before[item(path, key.String())] {
			stored.Clear(key)
		}
	}
	for key, value := range wanted.Range {
		stored.Set(key, value)
	}
}

func (m *merger) set(to, from protoreflect.Message, field protoreflect.FieldDescriptor, path string) {
	wanted := from.Get(field).List()
	var texts []string
	for i := range wanted.Len() {
		texts = append(texts, wanted.Get(i).String())
	}
	stored := to.Mutable(field).List()
	kept := to.NewField(field).List()
	for i := range stored.Len() {
		text := stored.Get(i).String()
		if at := slices.Index(texts, text); at >= 0 {
			texts = slices.Delete(texts, at, at+1)
		} else if m.before[item(path, text)] {
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
func (m *merger) items(to, from protoreflect.Message, field protoreflect.FieldDescriptor, path string) {
	wanted, unique := byKey(from.Get(field).List())
	if !unique {
		to.Set(field, from.Get(field))
		return
	}
	stored, _ := byKey(to.Get(field).List())
	merged := to.NewField(field).List()
	for _, one := range wanted {
		if at := slices.IndexFunc(stored, func(s keyed) bool { return s.key == one.key }); at >= 0 {
			m.below(stored[at].message, one.message, item(path, one.key))
			one.message = stored[at].message
			stored = slices.Delete(stored, at, at+1)
		}
		merged.Append(protoreflect.ValueOfMessage(one.message))
	}
	for _, one := range stored {
		if !m.before[item(path, one.key)] {
			merged.Append(protoreflect.ValueOfMessage(one.message))
		}
	}
	to.Set(field, protoreflect.ValueOfList(merged))
}

// keyed is an item of a list with its key.
type keyed struct {
	key     string
	message protoreflect.Message
}

// byKey returns the items of a list, and reports whether all keys are unique.
func byKey(list protoreflect.List) (items []keyed, unique bool) {
	seen := make(map[string]bool, list.Len())
	for i := range list.Len() {
		one := keyed{keyOf(list.Get(i).Message()), list.Get(i).Message()}
		seen[one.key] = true
		items = append(items, one)
	}
	return items, len(seen) == len(items)
}

package view

import (
	"iter"
	"slices"

	"portolan.dev/services/object"
)

// Item is one version of an object. It is shared by all readers, so nothing in it may be changed.
type Item struct {
	Key      object.Key
	Revision uint64        // the object's resource_version
	Object   object.Object // decoded
	Bytes    []byte        // encoded, with resource_version
	Field    []byte        // the same as a field of a response, see response.WithRevision

	stored int // length of the stored encoding, with which Bytes begins
}

// Stored returns the object as it is stored.
func (i *Item) Stored() []byte { return i.Bytes[:i.stored:i.stored] }

// State holds all objects at one revision. It never changes.
type State struct {
	epoch    string
	revision uint64
	kinds    map[string]tree
}

// StateAt returns a state without objects, for tests of the packages that follow a view.
func StateAt(revision uint64) *State { return &State{revision: revision} }

// Epoch returns the epoch of the log that the revision belongs to.
func (s *State) Epoch() string { return s.epoch }

// Revision returns the revision of the state.
func (s *State) Revision() uint64 { return s.revision }

// Get returns an object, or nil if it does not exist.
func (s *State) Get(key object.Key) *Item { return s.kinds[key.Kind].get(key.Namespace, key.Name) }

// Len returns the number of objects of all kinds.
func (s *State) Len() int {
	n := 0
	for _, t := range s.kinds {
		n += t.count()
	}
	return n
}

// From iterates over a kind's objects in the order of their keys, beginning with the given key. An
// empty namespace selects all namespaces.
func (s *State) From(start object.Key, namespace string) iter.Seq[*Item] {
	if namespace != "" && start.Namespace < namespace {
		start.Namespace, start.Name = namespace, ""
	}
	return func(yield func(*Item) bool) {
		for item := range s.kinds[start.Kind].from(start.Namespace, start.Name) {
			if namespace != "" && item.Key.Namespace != namespace {
				return
			}
			if !yield(item) {
				return
			}
		}
	}
}

// Count returns the number of objects that From yields. It does not visit them.
func (s *State) Count(start object.Key, namespace string) int {
	objects := s.kinds[start.Kind]
	if namespace == "" {
		return objects.countFrom(start.Namespace, start.Name)
	}
	if start.Namespace < namespace {
		start.Namespace, start.Name = namespace, ""
	}
	after := namespace + "\x00" // the first text after the namespace
	return max(0, objects.countFrom(start.Namespace, start.Name)-objects.countFrom(after, ""))
}

// All iterates over a kind's objects in one namespace, or in all namespaces if it is empty.
func (s *State) All(kind, namespace string) iter.Seq[*Item] {
	return s.From(object.Key{Kind: kind, Namespace: namespace}, namespace)
}

// Before returns the objects of one kind as they were at an earlier revision. changes are all
// changes of the kind since then, oldest first.
func (s *State) Before(revision uint64, kind string, changes []*Change) *State {
	objects := s.kinds[kind]
	for _, change := range slices.Backward(changes) {
		if change.Old != nil {
			objects, _ = objects.put(change.Old)
		} else {
			objects, _ = objects.remove(change.Last.Key.Namespace, change.Last.Key.Name)
		}
	}
	return &State{epoch: s.epoch, revision: revision, kinds: map[string]tree{kind: objects}}
}

// everything iterates over all objects.
func (s *State) everything() iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		for kind := range s.kinds {
			for item := range s.All(kind, "") {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// sameObjects reports whether two states have the same versions of the same objects.
func (s *State) sameObjects(other *State) bool {
	if s.revision != other.revision || s.Len() != other.Len() {
		return false
	}
	for item := range s.everything() {
		twin := other.Get(item.Key)
		if twin == nil || twin.Revision != item.Revision || object.MetaOf(twin.Object).GetUid() != object.MetaOf(item.Object).GetUid() {
			return false
		}
	}
	return true
}

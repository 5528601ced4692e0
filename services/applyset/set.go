package applyset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"portolan.dev/services/apply"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Set has the objects of manifests that belong together, and the selector by which later versions of the
// set find them.
type Set struct {
	keys       map[object.Key]bool
	selector   spec.Selector
	namespaces []string // sorted
	everywhere bool
}

// SetOptions are the options of a set.
type SetOptions struct {
	// Selector is the label selector of the set, such as "app=shop". It must not be empty, because every
	// object that was ever applied would belong to the set.
	Selector string
	// Namespace is a namespace to prune in besides those that the objects are in. Empty: none.
	Namespace string
	// Everywhere prunes in all namespaces. It needs a certificate that is not bound to a namespace.
	Everywhere bool
}

// Fault is an object that cannot be in a set.
type Fault struct {
	// Object is the object.
	Object object.Object
	// Message describes the problem and its remedy.
	Message string
}

// Error implements error.
func (f *Fault) Error() string { return keyOf(f.Object).String() + " " + f.Message }

// NewSet returns the set of objects. The error joins a [Fault] for each object that does not match the
// selector, and for each that is in the set twice.
func NewSet(objects []object.Object, o SetOptions) (*Set, error) {
	selector, err := spec.ParseSelector(o.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector %q: %w", o.Selector, err)
	}
	if selector.Empty() {
		return nil, errors.New("pruning needs a label selector: without one, every object that was ever applied would be deleted")
	}
	s := &Set{keys: make(map[object.Key]bool, len(objects)), selector: selector, everywhere: o.Everywhere}
	if o.Namespace != "" {
		s.namespaces = append(s.namespaces, o.Namespace)
	}
	var faults []error
	for _, o := range objects {
		if fault := s.add(o); fault != nil {
			faults = append(faults, fault)
		}
	}
	slices.Sort(s.namespaces)
	s.namespaces = slices.Compact(s.namespaces)
	return s, errors.Join(faults...)
}

// add adds an object to the keys and namespaces of the set.
func (s *Set) add(o object.Object) *Fault {
	key := keyOf(o)
	switch {
	case s.keys[key]:
		return &Fault{o, "is in the manifests twice; remove one"}
	case !s.selector.Matches(o.GetMetadata().GetLabels()):
		return &Fault{o, fmt.Sprintf("does not match the selector %s, so it could not be pruned later; add the labels, or change the selector", s.selector)}
	}
	s.keys[key] = true
	if key.Namespace != "" {
		s.namespaces = append(s.namespaces, key.Namespace)
	}
	return nil
}

// SetNamespace sets the namespace of an object of a manifest that names none, if its kind has namespaces.
func SetNamespace(o object.Object, namespace string) {
	if meta := object.MetaOf(o); kinds.Of(o).Namespaced && meta.GetNamespace() == "" {
		meta.Namespace = namespace
	}
}

// keyOf returns the key of an object of a manifest, as the registry stores it.
func keyOf(o object.Object) object.Key {
	key := object.KeyOf(o)
	if kinds.Of(o).Namespaced {
		key.Namespace = cmp.Or(key.Namespace, object.DefaultNamespace)
	}
	return key
}

// isStale reports whether a stored object was applied for the set earlier, and is no longer in it.
func (s *Set) isStale(stored object.Object) bool {
	meta := stored.GetMetadata()
	return !s.keys[object.KeyOf(stored)] && s.selector.Matches(meta.GetLabels()) && apply.IsApplied(stored) &&
		len(meta.GetOwnerReferences()) == 0 && meta.GetDeletionTimestamp() == nil
}

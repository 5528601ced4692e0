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

// Set is the objects of manifests that belong together, and the selector by which they are found again.
type Set struct {
	objects    []object.Object
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

// NewSet returns the set of objects. The error lists the objects that do not match the selector, and
// those that are in the set twice.
func NewSet(objects []object.Object, o SetOptions) (*Set, error) {
	selector, err := spec.ParseSelector(o.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector %q: %w", o.Selector, err)
	}
	if selector.Empty() {
		return nil, errors.New("pruning needs a label selector: without one, every object that was ever applied would be deleted")
	}
	s := &Set{objects: objects, keys: make(map[object.Key]bool, len(objects)), selector: selector, everywhere: o.Everywhere}
	if o.Namespace != "" {
		s.namespaces = append(s.namespaces, o.Namespace)
	}
	var faults []error
	for _, o := range objects {
		faults = append(faults, s.add(o))
	}
	slices.Sort(s.namespaces)
	s.namespaces = slices.Compact(s.namespaces)
	return s, errors.Join(faults...)
}

// add adds an object to the keys and namespaces of the set.
func (s *Set) add(o object.Object) error {
	key := keyOf(o)
	switch {
	case s.keys[key]:
		return fmt.Errorf("%s is in the manifests twice; remove one", key)
	case !s.selector.Matches(o.GetMetadata().GetLabels()):
		return fmt.Errorf("%s does not match the selector %s, so it could not be pruned later; add the labels or change the selector", key, s.selector)
	}
	s.keys[key] = true
	if key.Namespace != "" {
		s.namespaces = append(s.namespaces, key.Namespace)
	}
	return nil
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

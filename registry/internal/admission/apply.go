package admission

import (
	"context"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/services/apply"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// notApplied is the warning for an object that was not created by apply. Nothing is removed from it
// yet because no field of it is known to come from a manifest.
const notApplied = "the object was not made by apply: what the manifest leaves out stays as it is; from now on, what is taken out of the manifest is removed"

// Apply creates an object, or merges it into the stored one. Fields that were applied before and
// are no longer in o are removed. Fields that were set by the registry or by other clients stay.
// See package apply.
func (w *Writer) Apply(ctx context.Context, o object.Object, options Options) (*Result, error) {
	paths := apply.FieldsOf(o) // before defaults, which are not applied fields
	setNamespace(o)
	for attempt := 0; ; attempt++ {
		if w.View.State().Get(object.KeyOf(o)) == nil {
			result, err := w.createManaged(ctx, object.Clone(o), apply.Remember(nil, paths), options)
			if !apierr.IsAlreadyExists(err) || attempt == maxRetries {
				return result, err
			}
		}
		result, err := w.merge(ctx, o, paths, options)
		if !apierr.IsNotFound(err) || attempt == maxRetries {
			return result, err
		}
	}
}

// setNamespace gives an object of a kind with namespaces the default namespace if it has none.
func setNamespace(o object.Object) {
	if meta := object.MetaOf(o); meta.Namespace == "" && rules.Of(o).Namespaced {
		meta.Namespace = object.DefaultNamespace
	}
}

// merge applies an object to the stored one.
func (w *Writer) merge(ctx context.Context, o object.Object, paths []string, options Options) (*Result, error) {
	first := false
	result, err := w.update(ctx, o, options, func(old object.Object) (object.Object, []*corev1.ManagedFields) {
		first = isFirstApply(old)
		return mergeInto(old, o, paths)
	})
	if err == nil && first {
		result.Warnings = append(result.Warnings, notApplied)
	}
	return result, err
}

// mergeInto returns an object merged into the stored one, and the managed fields of the result.
func mergeInto(old, o object.Object, paths []string) (object.Object, []*corev1.ManagedFields) {
	merged := apply.Merge(old, o)
	rules.Of(o).Default(merged)
	return merged, apply.Remember(old.GetMetadata().GetManagedFields(), paths)
}

// isFirstApply reports whether no apply has set a field of a stored object.
func isFirstApply(old object.Object) bool {
	_, applied := apply.Remembered(old)
	return !applied
}

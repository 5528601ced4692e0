package admission

import (
	"context"
	"time"

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
// are no longer in o are removed, unless another manager owns them. Fields that were set by the
// registry or by other clients stay. See package apply.
func (w *Writer) Apply(ctx context.Context, o object.Object, options Options) (*Result, error) {
	application := apply.New(o) // before defaults, which are not applied fields
	setNamespace(o)
	for attempt := 0; ; attempt++ {
		if w.View.State().Get(object.KeyOf(o)) == nil {
			result, err := w.createManaged(ctx, object.Clone(o), application.Created(time.Now()), options)
			if !apierr.IsAlreadyExists(err) || attempt == maxRetries {
				return result, err
			}
		}
		result, err := w.update(ctx, o, options, mergeOf(application))
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

// mergeOf returns the renewal of an application.
func mergeOf(application *apply.Application) renewal {
	return func(old object.Object) (object.Object, ownership) {
		merged := application.Merge(old)
		rules.Of(merged).Default(merged)
		return merged, func(updated object.Object) ([]*corev1.ManagedFields, []string) {
			entries, warnings := application.Applied(old, updated, time.Now())
			if application.IsFirst(old) {
				warnings = append(warnings, notApplied)
			}
			return entries, warnings
		}
	}
}

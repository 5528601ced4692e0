package apply

import (
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Application is the application of a manifest by ApplyService. It is for one goroutine at a time.
type Application struct {
	manifest object.Object
	fields   *fieldpath.Set

	stored object.Object // object from which owners was read
	owners []*owner
}

// New returns the application of a manifest. The caller passes the manifest as the client sent it,
// without defaults, because a default is not an applied field. The fields stay the same if defaults are
// set in the manifest later.
func New(manifest object.Object) *Application {
	return &Application{manifest: manifest, fields: FieldsOf(manifest)}
}

// ownersOf returns the owners of the fields of a stored object.
func (a *Application) ownersOf(stored object.Object) []*owner {
	if a.stored != stored {
		a.stored, a.owners = stored, ownersOf(stored)
	}
	return a.owners
}

// IsFirst reports whether ApplyService owns no fields of a stored object.
func (a *Application) IsFirst(stored object.Object) bool { return find(a.ownersOf(stored)) == nil }

// find returns ApplyService among owners, or nil.
func find(owners []*owner) *owner {
	for _, one := range owners {
		if one.isApply() {
			return one
		}
	}
	return nil
}

// removed returns the fields that the previous manifest set and this one omits, unless another
// manager owns them too.
func (a *Application) removed(owners []*owner) *fieldpath.Set {
	own := find(owners)
	if own == nil {
		return fieldpath.NewSet()
	}
	removed := own.fields.Difference(a.fields)
	for _, other := range owners {
		if other != own {
			removed = removed.Difference(other.fields)
		}
	}
	return removed
}

// Created returns the managed fields of an object that the application creates.
func (a *Application) Created(now time.Time) []*corev1.ManagedFields {
	one := &owner{ManagedFields: &corev1.ManagedFields{Manager: Manager}, fields: a.fields}
	return store([]*owner{one}, a.manifest, now)
}

// Applied returns the managed fields of an object after the application, and a warning for each
// manager that has lost a field because the manifest changes its value.
func (a *Application) Applied(stored, updated object.Object, now time.Time) (entries []*corev1.ManagedFields, warnings []string) {
	owners := slices.Clone(a.ownersOf(stored))
	for i, one := range owners {
		owners[i] = new(*one)
	}
	own := find(owners)
	if own == nil {
		own = &owner{ManagedFields: &corev1.ManagedFields{Manager: Manager}}
		owners = append(owners, own)
	}
	if isEarlier(own.ManagedFields) {
		own.was = nil
	}
	own.fields = a.fields
	if len(owners) > 1 {
		changed := changedFields(stored, updated)
		for _, other := range owners {
			if other == own {
				continue
			}
			if taken := other.fields.Intersection(changed).Intersection(a.fields); !taken.Empty() {
				warnings = append(warnings, fmt.Sprintf("%s: taken from the manager %q, which had set another value", describe(taken), other.GetManager()))
			}
			other.lose(changed)
		}
	}
	return store(owners, updated, now), warnings
}

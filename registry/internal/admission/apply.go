package admission

import (
	"portolan.dev/registry/internal/rules"
	"portolan.dev/services/object"
)

// notApplied is the warning for an object that was not created by apply. Nothing is removed from it
// yet because no field of it is known to come from a manifest.
const notApplied = "the object was not made by apply: what the manifest leaves out stays as it is; from now on, what is taken out of the manifest is removed"

// setNamespace gives an object of a kind with namespaces the default namespace if it has none.
func setNamespace(o object.Object) {
	if meta := object.MetaOf(o); meta.Namespace == "" && rules.Of(o).Namespaced {
		meta.Namespace = object.DefaultNamespace
	}
}

package apply

import (
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// isEarlier reports whether an earlier release wrote an entry. Such a release knows only the manager
// of ApplyService, and paths of its own.
func isEarlier(entry *corev1.ManagedFields) bool { return len(entry.GetFieldsV1()) == 0 }

// earlierFields returns the fields of an object that an entry of an earlier release lists. A field
// that the object no longer has is left out, because nothing can be removed or taken there.
func earlierFields(o object.Object, entry *corev1.ManagedFields) *fieldpath.Set {
	listed := make(map[string]bool, len(entry.GetFields()))
	for _, path := range entry.GetFields() {
		listed[path] = true
	}
	fields := fieldpath.NewSet()
	m := o.ProtoReflect()
	for field := range fieldsToApply(m.Descriptor()) {
		collect(m, field, nil, func(at place) {
			if listed[at.earlier()] {
				fields.Insert(at.path())
			}
		})
	}
	return fields
}

// earlier returns the place as earlier releases wrote it, such as "spec.ports[80/TCP].nodePort".
func (p place) earlier() string {
	path := ""
	for i, step := range p {
		switch {
		case step.field == nil:
			path += "[" + step.key + "]"
		case i == 0:
			path = step.field.JSONName()
		default:
			path += "." + step.field.JSONName()
		}
	}
	return path
}

package apply

import (
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// isEarlier reports whether an earlier release wrote an entry. Such a release has only the manager of
// ApplyService, and another format of paths.
func isEarlier(entry *corev1.ManagedFields) bool { return len(entry.GetFieldsV1()) == 0 }

// earlierFields returns the fields in an entry of an earlier release. It leaves out fields that the
// object no longer has, because they cannot be removed from it.
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

// earlier returns the place in the format of earlier releases, such as "spec.ports[80/TCP].nodePort".
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

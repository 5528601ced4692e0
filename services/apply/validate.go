package apply

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
)

const (
	maxManagers      = 100       // entries of one object
	maxManagedFields = 256 << 10 // bytes of all entries, as of the annotations
	maxManager       = 128       // bytes of a manager's name, as in Kubernetes
	maxText          = 256       // bytes of the other texts
)

// Validate checks the managed fields that a request determines.
func Validate(entries []*corev1.ManagedFields) apierr.Violations {
	var found apierr.Violations
	const list = "metadata.managedFields"
	size := 0
	for _, entry := range entries {
		size += entry.SizeVT()
	}
	switch {
	case len(entries) > maxManagers:
		found.Add(list, apierr.ReasonTooLong, "has %d entries, at most %d are allowed", len(entries), maxManagers)
	case size > maxManagedFields:
		found.Add(list, apierr.ReasonTooLong, "may not be more than %d bytes", maxManagedFields)
	default:
		for i, entry := range entries {
			validateEntry(&found, fmt.Sprintf("%s[%d].", list, i), entry)
		}
	}
	return found
}

func validateEntry(found *apierr.Violations, path string, entry *corev1.ManagedFields) {
	for name, text := range map[string]string{"apiVersion": entry.GetApiVersion(), "subresource": entry.GetSubresource()} {
		if len(text) > maxText {
			found.Add(path+name, apierr.ReasonTooLong, "may not be more than %d bytes", maxText)
		}
	}
	switch manager := entry.GetManager(); {
	case len(manager) > maxManager:
		found.Add(path+"manager", apierr.ReasonTooLong, "may not be more than %d bytes", maxManager)
	case strings.ContainsFunc(manager, func(r rune) bool { return !unicode.IsPrint(r) }):
		found.Add(path+"manager", apierr.ReasonInvalid, "invalid value %q: must have printable characters only", manager)
	}
	if len(entry.GetFields()) > 0 && isEarlier(entry) {
		return
	}
	if operation := entry.GetOperation(); operation != opApply && operation != opUpdate {
		found.Add(path+"operation", apierr.ReasonNotSupported, "unsupported value %q: supported values: \"Apply\", \"Update\"", operation)
	}
	if entry.GetApiVersion() == "" {
		found.Add(path+"apiVersion", apierr.ReasonRequired, "required: says which API has the names of the fields")
	}
	if err := fieldpath.NewSet().FromJSON(bytes.NewReader(entry.GetFieldsV1())); err != nil {
		found.Add(path+"fieldsV1", apierr.ReasonInvalid, "invalid value: must be a set of fields: %v", err)
	}
}

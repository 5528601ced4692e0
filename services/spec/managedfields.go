package spec

import (
	"bytes"
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
)

// ValidateManagedFields checks the managed fields that a request determines.
func ValidateManagedFields(entries []*corev1.ManagedFields) apierr.Violations {
	var c checks
	const list = "metadata.managedFields"
	size := 0
	for _, entry := range entries {
		size += entry.SizeVT()
	}
	switch {
	case !c.atMost(list, len(entries), maxManagers):
		return c.found
	case size > maxManagedFields:
		c.tooLong(list, maxManagedFields)
		return c.found
	}
	for i, entry := range entries {
		checkManagedFields(&c, indexed(list, i), entry)
	}
	return c.found
}

func checkManagedFields(c *checks, field string, entry *corev1.ManagedFields) {
	c.text(field+".manager", entry.GetManager(), maxManager)
	if strings.ContainsFunc(entry.GetManager(), func(r rune) bool { return !unicode.IsPrint(r) }) {
		c.invalid(field+".manager", entry.GetManager(), "must have printable characters only")
	}
	if len(entry.GetFields()) > 0 && len(entry.GetFieldsV1()) == 0 {
		return // an earlier release wrote it
	}
	checkEnum(c, field+".operation", entry.GetOperation())
	if entry.GetApiVersion() == "" {
		c.required(field+".apiVersion", "says which API has the names of the fields")
	}
	c.text(field+".apiVersion", entry.GetApiVersion(), maxText)
	c.text(field+".subresource", entry.GetSubresource(), maxText)
	if err := fieldpath.NewSet().FromJSON(bytes.NewReader(entry.GetFieldsV1())); err != nil {
		c.invalid(field+".fieldsV1", string(entry.GetFieldsV1()), "must be a set of fields: %v", err)
	}
}

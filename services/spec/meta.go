package spec

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

const maxAnnotations = 256 << 10

// MetaRules are the rules for the metadata of a kind.
type MetaRules struct {
	Namespaced bool
	// Name returns the mistake in a name, or "". nil allows all names.
	Name func(string) string
	// Labels is the largest number of labels. Default: the limit of most kinds.
	Labels int
}

// ValidateMeta checks the metadata of an object of any kind.
func ValidateMeta(o object.Object, rules MetaRules) apierr.Violations {
	var c checks
	kind, meta := object.KindOf(o), o.GetMetadata()
	if meta.GetName() == "" {
		c.required("metadata.name", "name or generateName must be given")
	} else if rules.Name != nil {
		c.syntax("metadata.name", meta.GetName(), rules.Name(meta.GetName()))
	}
	switch namespace := meta.GetNamespace(); {
	case !rules.Namespaced && namespace != "":
		c.forbidden("metadata.namespace", "objects of kind %s have no namespace", kind)
	case rules.Namespaced && namespace == "":
		c.required("metadata.namespace", "objects of kind "+kind+" live in a namespace")
	case namespace != "":
		c.syntax("metadata.namespace", namespace, DNSLabel(namespace))
	}
	if c.atMost("metadata.labels", len(meta.GetLabels()), cmp.Or(rules.Labels, maxLabels)) {
		checkLabels(&c, "metadata.labels", meta.GetLabels())
	}
	checkAnnotations(&c, meta.GetAnnotations())
	if c.atMost("metadata.ownerReferences", len(meta.GetOwnerReferences()), maxOwners) {
		checkOwners(&c, meta.GetOwnerReferences())
	}
	if !c.atMost("metadata.finalizers", len(meta.GetFinalizers()), maxFinalizers) {
		return c.found
	}
	for i, finalizer := range meta.GetFinalizers() {
		field := indexed("metadata.finalizers", i)
		c.syntax(field, finalizer, QualifiedName(finalizer))
		if slices.Contains(meta.GetFinalizers()[:i], finalizer) {
			c.duplicate(field, finalizer)
		}
	}
	return c.found
}

// checkLabels checks labels in the order of their keys, so that the violations of an object are
// always the same.
func checkLabels(c *checks, field string, labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		c.syntax(field, key, QualifiedName(key))
		if problem := LabelValue(labels[key]); problem != "" {
			c.invalid(field, labels[key], "the value of label %q %s", truncate(key), problem)
		}
	}
}

func checkAnnotations(c *checks, annotations map[string]string) {
	size := 0
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		size += len(key) + len(annotations[key])
		c.syntax("metadata.annotations", key, QualifiedName(strings.ToLower(key)))
	}
	if size > maxAnnotations {
		c.tooLong("metadata.annotations", maxAnnotations)
	}
}

func checkOwners(c *checks, owners []*corev1.OwnerReference) {
	controllers := 0
	for i, owner := range owners {
		field := indexed("metadata.ownerReferences", i)
		for name, value := range map[string]string{"kind": owner.GetKind(), "name": owner.GetName(), "uid": owner.GetUid()} {
			if value == "" {
				c.required(field+"."+name, "says who the owner is")
			}
			c.text(field+"."+name, value, maxOwnerText)
		}
		if owner.GetController() {
			controllers++
		}
	}
	if controllers > 1 {
		c.invalid("metadata.ownerReferences", controllers, "only one owner can be the controller")
	}
}

// ValidateMetaUpdate checks that an update leaves the immutable metadata unchanged, and adds no
// finalizer to an object that is being deleted.
func ValidateMetaUpdate(updated, old *corev1.ObjectMeta) apierr.Violations {
	var c checks
	for _, field := range []struct{ name, updated, old string }{
		{"metadata.name", updated.GetName(), old.GetName()},
		{"metadata.namespace", updated.GetNamespace(), old.GetNamespace()},
		{"metadata.uid", updated.GetUid(), old.GetUid()},
	} {
		if field.updated != field.old {
			c.immutable(field.name, field.updated)
		}
	}
	if !proto.Equal(updated.GetCreationTimestamp(), old.GetCreationTimestamp()) {
		c.immutable("metadata.creationTimestamp", updated.GetCreationTimestamp().AsTime())
	}
	if old.GetDeletionTimestamp() != nil {
		for i, finalizer := range updated.GetFinalizers() {
			if !slices.Contains(old.GetFinalizers(), finalizer) {
				c.forbidden(indexed("metadata.finalizers", i), "no finalizer can be added to an object that is being deleted")
			}
		}
	}
	return c.found
}

// KeepSystemMeta copies metadata that the registry sets from the old object if the client omitted
// it, so that a manifest can be applied again. Values from the client are kept, and validation
// checks them.
func KeepSystemMeta(updated, old *corev1.ObjectMeta) {
	setDefault(&updated.Uid, old.GetUid())
	setDefault(&updated.GenerateName, old.GetGenerateName())
	if updated.CreationTimestamp == nil {
		updated.CreationTimestamp = proto.CloneOf(old.GetCreationTimestamp())
	}
	updated.Generation = old.GetGeneration()
	updated.DeletionTimestamp = proto.CloneOf(old.GetDeletionTimestamp())
	updated.DeletionGracePeriodSeconds = nil
	if seconds := old.DeletionGracePeriodSeconds; seconds != nil {
		updated.DeletionGracePeriodSeconds = proto.Int64(*seconds)
	}
}

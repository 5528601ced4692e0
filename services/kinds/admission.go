package kinds

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Default sets the default values of an object. It is idempotent.
func (k *Kind) Default(o object.Object) {
	if meta := object.MetaOf(o); k.Namespaced && meta.Namespace == "" {
		meta.Namespace = object.DefaultNamespace
	}
	k.fill(o)
}

// PrepareCreate prepares a new object for validation. It clears the fields that only the registry
// sets, including status, and completes pairs of linked fields.
func (k *Kind) PrepareCreate(o object.Object) {
	meta := object.MetaOf(o)
	meta.Uid, meta.ResourceVersion, meta.Generation = "", 0, 0
	meta.CreationTimestamp, meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = nil, nil, nil
	m := o.ProtoReflect()
	if status := m.Descriptor().Fields().ByName("status"); status != nil {
		m.Clear(status)
		k.fill(o) // the status has defaults, too
	}
	k.prepareCreate(o)
}

// PrepareUpdate prepares an update for validation. It keeps the old status, and copies optional
// fields that the client omitted from the old object.
func (k *Kind) PrepareUpdate(updated, old object.Object) {
	spec.KeepSystemMeta(object.MetaOf(updated), old.GetMetadata())
	copyField(updated, old, "status")
	k.prepareUpdate(updated, old)
}

// PrepareStatusUpdate prepares an update of the status for validation. It keeps everything else
// from the old object, except metadata.resourceVersion, which identifies the version that the
// client has read.
func (k *Kind) PrepareStatusUpdate(updated, old object.Object) {
	seen := updated.GetMetadata().GetResourceVersion()
	copyField(updated, old, "metadata")
	copyField(updated, old, "spec")
	object.MetaOf(updated).ResourceVersion = seen
	k.Default(updated)
}

// copyField replaces a message field by a deep copy, if the kind has the field.
func copyField(to, from object.Object, name protoreflect.Name) {
	m, source := to.ProtoReflect(), from.ProtoReflect()
	field := m.Descriptor().Fields().ByName(name)
	switch {
	case field == nil:
	case source.Has(field):
		m.Set(field, protoreflect.ValueOfMessage(proto.Clone(source.Get(field).Message().Interface()).ProtoReflect()))
	default:
		m.Clear(field)
	}
}

// Validate checks a new object.
func (k *Kind) Validate(o object.Object, rules spec.Rules) apierr.Violations {
	return append(spec.ValidateMeta(o, k.meta), k.validate(o, rules)...)
}

// ValidateUpdate checks an object that is to replace old.
func (k *Kind) ValidateUpdate(updated, old object.Object, rules spec.Rules) apierr.Violations {
	meta := k.meta
	if k.oldNames {
		meta.Name = nil
	}
	found := append(spec.ValidateMeta(updated, meta), spec.ValidateMetaUpdate(updated.GetMetadata(), old.GetMetadata())...)
	return append(found, k.validateUpdate(updated, old, rules)...)
}

// ValidateStatus checks the status of an object.
func (k *Kind) ValidateStatus(o object.Object, rules spec.Rules) apierr.Violations {
	return k.validateStatus(o, rules)
}

// Warnings returns warnings about valid fields of an object that are probably a mistake.
func (k *Kind) Warnings(o object.Object) []string { return k.warnings(o) }

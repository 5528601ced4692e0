package kinds

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Kind describes a kind of objects.
type Kind struct {
	Name       string   // "Service"
	Plural     string   // "services"
	Short      []string // "svc"
	Namespaced bool
	Access     Access
	// Private is set if only operators, and the roles that package access lists, may read the contents of
	// objects. Viewers may not, and messages on the change stream lack the contents.
	Private bool
	// InKubernetes is set if Kubernetes has the kind and kubeapi serves it. It is not set for private
	// kinds, so that a stolen key of kubeapi does not show their objects.
	InKubernetes bool
	// Lasting is set if objects are not pruned when a set of manifests no longer has them, because their
	// deletion has more effects than undoing a manifest.
	Lasting bool
	// MaxBytes is the largest encoded size of an object.
	MaxBytes int

	message protoreflect.MessageType
	fields  spec.Fields
	meta    spec.MetaRules
	// oldNames is set if an update does not check the name again.
	oldNames bool

	fill           func(object.Object)
	prepareCreate  func(object.Object)
	prepareUpdate  func(updated, old object.Object)
	validate       func(object.Object, spec.Rules) apierr.Violations
	validateUpdate func(updated, old object.Object, rules spec.Rules) apierr.Violations
	validateStatus func(object.Object, spec.Rules) apierr.Violations
	warnings       func(object.Object) []string
}

// New returns an empty object.
func (k *Kind) New() object.Object {
	o, _ := k.message.New().Interface().(object.Object)
	return o
}

// FieldIn returns the field of a message, single or repeated, that has objects of the kind. It returns nil if
// there is none.
func (k *Kind) FieldIn(message protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	for i := range message.Fields().Len() {
		if field := message.Fields().Get(i); field.Message() != nil && field.Message().FullName() == k.message.Descriptor().FullName() {
			return field
		}
	}
	return nil
}

// HasStatus reports whether objects have a status, which is written separately from the other
// fields.
func (k *Kind) HasStatus() bool {
	return k.message.Descriptor().Fields().ByName("status") != nil
}

// ParseFieldSelector parses a selector of objects of the kind.
func (k *Kind) ParseFieldSelector(text string) (spec.FieldSelector, error) {
	return spec.ParseFieldSelector(k.Name, k.fields, text)
}

// Named returns the kind with a singular, plural or short name. It ignores case.
func Named(name string) (*Kind, bool) {
	kind, ok := byName[strings.ToLower(name)]
	return kind, ok
}

// Of returns the kind of an object. It returns nil for a message that is not in the table.
func Of(o object.Object) *Kind { return byMessage[o.ProtoReflect().Descriptor().FullName()] }

var byName, byMessage = index()

func index() (map[string]*Kind, map[protoreflect.FullName]*Kind) {
	names, messages := make(map[string]*Kind, 4*len(All)), make(map[protoreflect.FullName]*Kind, len(All))
	for _, kind := range All {
		messages[kind.message.Descriptor().FullName()] = kind
		names[strings.ToLower(kind.Name)] = kind
		names[kind.Plural] = kind
		for _, short := range kind.Short {
			names[short] = kind
		}
	}
	return names, messages
}

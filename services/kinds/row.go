package kinds

import (
	"cmp"
	"strings"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// row is the row of the kind with the message T. Fields that are not set have a default, which is
// enough for a kind without rules of its own.
type row[T object.Object] struct {
	plural     string   // default: the name in lower case, with an "s"
	short      []string // default: none
	namespaced bool
	access     Access // default: operators write, viewers read
	private    bool   // viewers read nothing, see Kind
	own        bool   // Kubernetes does not have the kind
	lasting    bool   // objects are not pruned, see Kind
	// maxBytes is the largest encoded size of an object. Default: defaultMaxBytes.
	maxBytes int
	// maxLabels is the largest number of labels. Default: the limit of spec.
	maxLabels int

	// fields are the fields to select by, besides the name and the namespace.
	fields map[string]func(T) string

	// fill sets default values.
	fill func(T)
	// prepareCreate and prepareUpdate complete fields that belong together, before validation.
	prepareCreate func(T)
	prepareUpdate func(updated, old T)

	name func(string) string // the mistake in a name, or ""; default: spec.DNSSubdomain
	// oldNames is set if an update does not check the name, because an earlier release may have accepted
	// names that are invalid now.
	oldNames bool
	// validate checks everything except the metadata.
	validate func(T, spec.Rules) apierr.Violations
	// validateUpdate checks the new object against the old one. The default is validate.
	validateUpdate func(updated, old T, rules spec.Rules) apierr.Violations
	validateStatus func(T, spec.Rules) apierr.Violations
	warnings       func(T) []string // default: spec.Warnings
}

// The largest encoded sizes of objects. Kinds that every node agent writes, and writes often, have
// the small one, because each version of an object is kept in the log and in memory for watchers. A
// Node as Kubernetes has it takes some 3 KiB without its images, which Portolan does not have.
const (
	defaultMaxBytes = 3 << 19 // 1.5 MiB
	smallMaxBytes   = 16 << 10
	// sliceMaxBytes has room for the ports and labels of the largest Service, or the contents of the largest
	// Endpoints, and 256 KiB for endpoints. An answer of the registry ends with the object that exceeds 2 MiB, so
	// that it fits into the 4 MiB of a message with any object of up to 2 MiB.
	sliceMaxBytes = defaultMaxBytes + 256<<10
	// podMaxBytes leaves room for large environments. Workloads write Pods too.
	podMaxBytes = 256 << 10
	// secretMaxBytes is enough for a chain of certificates and its key. Every edge keeps all of them.
	secretMaxBytes = 64 << 10
)

// kind returns the description of the row's kind, with functions that have the same type for all
// kinds.
func (r row[T]) kind() *Kind {
	var zero T
	message := zero.ProtoReflect().Type()
	name := string(message.Descriptor().Name())
	meta := spec.MetaRules{Namespaced: r.namespaced, Name: r.name, Labels: r.maxLabels}
	if meta.Name == nil {
		meta.Name = spec.DNSSubdomain
	}
	return &Kind{
		Name: name, Plural: cmp.Or(r.plural, strings.ToLower(name)+"s"), Short: r.short, Namespaced: r.namespaced, Access: r.access, Private: r.private, InKubernetes: !r.own && !r.private, Lasting: r.lasting,
		MaxBytes: cmp.Or(r.maxBytes, defaultMaxBytes),
		message:  message, fields: r.selectable(), meta: meta, oldNames: r.oldNames,
		fill: erase(r.fill), prepareCreate: erase(r.prepareCreate), prepareUpdate: r.erasedPrepareUpdate(),
		validate: eraseCheck(r.validate), validateUpdate: r.erasedValidateUpdate(), validateStatus: eraseCheck(r.validateStatus),
		warnings: r.erasedWarnings(),
	}
}

func (r row[T]) selectable() spec.Fields {
	fields := spec.Fields{"metadata.name": func(o object.Object) string { return o.GetMetadata().GetName() }}
	if r.namespaced {
		fields["metadata.namespace"] = func(o object.Object) string { return o.GetMetadata().GetNamespace() }
	}
	for path, read := range r.fields {
		fields[path] = func(o object.Object) string { return read(o.(T)) }
	}
	return fields
}

func erase[T object.Object](f func(T)) func(object.Object) {
	if f == nil {
		return func(object.Object) {}
	}
	return func(o object.Object) { f(o.(T)) }
}

func eraseCheck[T object.Object](f func(T, spec.Rules) apierr.Violations) func(object.Object, spec.Rules) apierr.Violations {
	if f == nil {
		return func(object.Object, spec.Rules) apierr.Violations { return nil }
	}
	return func(o object.Object, rules spec.Rules) apierr.Violations { return f(o.(T), rules) }
}

func (r row[T]) erasedPrepareUpdate() func(updated, old object.Object) {
	if r.prepareUpdate == nil {
		return func(_, _ object.Object) {}
	}
	return func(updated, old object.Object) { r.prepareUpdate(updated.(T), old.(T)) }
}

func (r row[T]) erasedValidateUpdate() func(updated, old object.Object, rules spec.Rules) apierr.Violations {
	if r.validateUpdate == nil {
		validate := eraseCheck(r.validate)
		return func(updated, _ object.Object, rules spec.Rules) apierr.Violations { return validate(updated, rules) }
	}
	return func(updated, old object.Object, rules spec.Rules) apierr.Violations {
		return r.validateUpdate(updated.(T), old.(T), rules)
	}
}

func (r row[T]) erasedWarnings() func(object.Object) []string {
	if r.warnings == nil {
		return spec.Warnings
	}
	return func(o object.Object) []string { return r.warnings(o.(T)) }
}

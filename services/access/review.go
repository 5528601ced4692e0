package access

import (
	"context"
	"fmt"

	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// Review returns the reason why the caller of ctx may not call the method of a verb for objects of a kind
// in a namespace, or "" if it may. It checks the table and the limits that a call checks. An empty
// namespace means all namespaces; a list or watch of all namespaces is allowed if the caller may read one
// of them. Review does not check rules that depend on other fields of the object, such as whether a pod is
// a workload's own.
func Review(ctx context.Context, kind *kinds.Kind, verb kinds.Verb, namespace string) string {
	id, err := identity.Caller(ctx)
	if err != nil {
		return "" // without TLS there are no roles
	}
	if err := methods().Authorize(ctx, kind.FullMethod(verb)); err != nil {
		return err.Error()
	}
	reads := verb == kinds.Get || verb == kinds.List || verb == kinds.Watch
	switch {
	case !kind.Namespaced || id.Namespace == "":
	case namespace == "" && (verb == kinds.List || verb == kinds.Watch):
		return ""
	case namespace == "":
		return fmt.Sprintf("%s is bound to the namespace %q", id, id.Namespace)
	default:
		if reason := otherNamespace(id, namespace); reason != "" {
			return reason
		}
	}
	if limit := WriteLimitOf(ctx); !reads && limit != nil && isBound(id) {
		o := kind.New()
		meta := object.MetaOf(o)
		meta.Namespace = namespace
		if err := limit(o, o); err != nil {
			return err.Error()
		}
	}
	return ""
}

package resource

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/kubeapi/internal/convert"
)

// Resource is one resource of one version of the API.
type Resource struct {
	Kind       schema.GroupVersionKind
	Plural     string
	Short      []string
	Categories []string
	Namespaced bool
	// Codec converts the objects. It is nil for a kind that Portolan does not have.
	Codec *convert.Codec
}

// GroupVersion returns the version of the API that the resource belongs to.
func (r *Resource) GroupVersion() schema.GroupVersion { return r.Kind.GroupVersion() }

// GroupResource returns the name of the resource in errors.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Kind.Group, Resource: r.Plural}
}

// Singular returns the singular name.
func (r *Resource) Singular() string { return strings.ToLower(r.Kind.Kind) }

// HasStatus reports whether the objects have the subresource status.
func (r *Resource) HasStatus() bool { return r.Codec != nil && r.Codec.Kind.HasStatus() }

// IsNamespaces reports whether the resource is that of namespaces, which has the subresource finalize.
func (r *Resource) IsNamespaces() bool { return r.Kind.Group == "" && r.Plural == "namespaces" }

// Verbs returns the verbs of the resource.
func (r *Resource) Verbs() []string {
	if r.Codec == nil {
		return []string{"get", "list", "watch"}
	}
	if r.IsNamespaces() { // as in Kubernetes, so that no mistake deletes everything
		return []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	}
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

// Find returns the resource with a plural name in a version of the API.
func Find(version schema.GroupVersion, plural string) (*Resource, bool) {
	found, ok := byName[version.WithResource(plural)]
	return found, ok
}

// OfKind returns the resource of a kind of Portolan, in the preferred version of the API.
func OfKind(kind string) (*Resource, bool) {
	for _, r := range All {
		if r.Codec != nil && r.Codec.Kind.Name == kind {
			return r, true
		}
	}
	return nil, false
}

var byName = func() map[schema.GroupVersionResource]*Resource {
	index := make(map[schema.GroupVersionResource]*Resource, len(All))
	for _, r := range All {
		index[r.GroupVersion().WithResource(r.Plural)] = r
	}
	return index
}()

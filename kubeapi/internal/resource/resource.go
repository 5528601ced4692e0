package resource

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/services/kube"
)

// Resource is one resource of one version of the API.
type Resource struct {
	Kind       schema.GroupVersionKind
	Plural     string
	Short      []string
	Categories []string
	Namespaced bool
	// Codec converts the objects. It is nil for a kind that Portolan does not have, and for a review.
	Codec *kube.Codec
	// Review returns an empty review. It is nil for other resources. A client creates a review to ask a
	// question, and the response has the answer. Nothing is stored.
	Review func() Review
}

// Review is a question of a client about itself.
type Review interface {
	runtime.Object
	metav1.Object
}

// IsReview reports whether the resource has reviews, which can only be created.
func (r *Resource) IsReview() bool { return r.Review != nil }

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

// IsNamespaces reports whether the objects are Namespaces, which have the subresource finalize.
func (r *Resource) IsNamespaces() bool { return r.Kind.Group == "" && r.Plural == "namespaces" }

// Verbs returns the verbs of the resource.
func (r *Resource) Verbs() []string {
	if r.IsReview() {
		return []string{"create"}
	}
	if r.Codec == nil {
		return []string{"get", "list", "watch"}
	}
	if r.IsNamespaces() { // as in Kubernetes, so that no mistake deletes everything
		return []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	}
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

// Subresources returns the verbs of the subresources.
func (r *Resource) Subresources() map[string][]string {
	found := map[string][]string{}
	if r.HasStatus() {
		found["status"] = []string{"get", "patch", "update"}
	}
	if r.IsNamespaces() {
		found["finalize"] = []string{"update"}
	}
	return found
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

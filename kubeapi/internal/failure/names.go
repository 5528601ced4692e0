package failure

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/kubeapi/internal/resource"
)

func groupResource(of *resource.Resource) schema.GroupResource {
	if of == nil {
		return schema.GroupResource{}
	}
	return of.GroupResource()
}

func plural(of *resource.Resource) string { return groupResource(of).String() }

// kindName returns the name of the kind with its group, such as Service or
// EndpointSlice.discovery.k8s.io.
func kindName(of *resource.Resource) string {
	if of == nil {
		return "request"
	}
	return of.Kind.GroupKind().String()
}

package server

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"portolan.dev/kubeapi/internal/resource"
	"portolan.dev/kubeapi/internal/wire"
)

// bookmark returns the encoded object of a bookmark: an empty object of the resource with the revision.
func (e *objectEncoder) bookmark(of *resource.Resource, revision uint64, annotations map[string]string) ([]byte, error) {
	about := metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(revision, 10), Annotations: annotations}
	var out runtime.Object
	switch {
	case e.format.As == wire.Table:
		table := e.format.Bookmark(about)
		return e.format.Encode(table)
	case e.codec == nil:
		// In protobuf this also decodes as any other type, because metadata is the first field of each.
		out = &metav1.PartialObjectMetadata{ObjectMeta: about}
		out.GetObjectKind().SetGroupVersionKind(of.Kind)
	default:
		o := e.codec.New()
		o.SetResourceVersion(about.ResourceVersion)
		o.SetAnnotations(annotations)
		o.GetObjectKind().SetGroupVersionKind(of.Kind)
		transformed, err := e.format.Object(of.Kind, o, e.rows)
		if err != nil {
			return nil, err
		}
		out = transformed
	}
	return e.format.Encode(out)
}

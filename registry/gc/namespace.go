package gc

import (
	"context"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/registry/kinds"
	"portolan.dev/registry/view"
)

// empty removes what is in a namespace that is being deleted, and then the namespace.
func (c *Collector) empty(ctx context.Context, state *view.State, item *view.Item) error {
	meta := item.Object.GetMetadata()
	if meta.GetDeletionTimestamp() == nil {
		return nil
	}
	left := false
	for _, row := range kinds.All {
		if !row.Namespaced {
			continue
		}
		for inside := range state.All(row.Name, item.Key.Name) {
			left = true
			if inside.Object.GetMetadata().GetDeletionTimestamp() == nil {
				c.queue.add(inside.Key)
			}
		}
	}
	namespace, _ := item.Object.(*corev1.Namespace)
	if left || len(meta.GetFinalizers()) > 0 || len(namespace.GetSpec().GetFinalizers()) > 0 {
		return nil // its last object, or the change of the namespace, brings it back here
	}
	return c.writer.Remove(ctx, item)
}

package gc

import (
	"context"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
)

// emptyNamespace removes the contents of a namespace that is being deleted, and then the namespace.
func (c *Collector) emptyNamespace(ctx context.Context, state *view.State, item *view.Item) error {
	if !terminating(item) {
		return nil
	}
	left := c.addContents(state, item.Key.Name)
	meta := item.Object.GetMetadata()
	namespace, _ := item.Object.(*corev1.Namespace)
	if left || len(meta.GetFinalizers()) > 0 || len(namespace.GetSpec().GetFinalizers()) > 0 {
		return nil // its last object, or a change of the namespace, queues it again
	}
	return c.writer.Remove(ctx, item)
}

// addContents queues all objects of a namespace and reports whether there are any.
func (c *Collector) addContents(state *view.State, namespace string) bool {
	found := false
	for _, row := range rules.All {
		for inside := range state.All(row.Name, namespace) {
			found = true
			if !terminating(inside) {
				c.queue.add(inside.Key)
			}
		}
	}
	return found
}

package gc

import (
	"context"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/registry/kinds"
	"portolan.dev/registry/view"
)

// empty removes what is in a namespace that is being deleted, and then the namespace.
func (c *Collector) empty(ctx context.Context, state *view.State, item *view.Item) error {
	if !terminating(item) {
		return nil
	}
	left := c.addContents(state, item.Key.Name)
	meta := item.Object.GetMetadata()
	namespace, _ := item.Object.(*corev1.Namespace)
	if left || len(meta.GetFinalizers()) > 0 || len(namespace.GetSpec().GetFinalizers()) > 0 {
		return nil // its last object, or the change of the namespace, brings it back here
	}
	return c.writer.Remove(ctx, item)
}

// addContents has everything in a namespace looked at, and says whether there is anything.
func (c *Collector) addContents(state *view.State, namespace string) bool {
	found := false
	for _, row := range kinds.All {
		for inside := range state.All(row.Name, namespace) {
			found = true
			if !terminating(inside) {
				c.queue.add(inside.Key)
			}
		}
	}
	return found
}

//go:build race

package changes

import (
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// TestSharedObjectsMustNotChange checks that under the race detector a view notices a change of an
// object that it shares.
func TestSharedObjectsMustNotChange(t *testing.T) {
	for _, changed := range []bool{false, true} {
		v := newView(false)
		node := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}}
		v.put(object.KeyOf(node), node)
		if changed {
			node.Metadata.Labels = map[string]string{"zone": "a"}
		}
		func() {
			defer func() {
				if panicked := recover() != nil; panicked != changed {
					t.Errorf("changed %t, panicked %t", changed, panicked)
				}
			}()
			v.remove(object.KeyOf(node))
		}()
	}
}

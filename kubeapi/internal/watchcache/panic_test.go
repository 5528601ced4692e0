package watchcache_test

import (
	"testing"

	"portolan.dev/kubeapi/internal/watchcache"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard/guardtest"
)

// TestAnObjectThatPanicsHoldsBackNoOther checks that lists and watches have the other objects of a batch.
func TestAnObjectThatPanicsHoldsBackNoOther(t *testing.T) {
	w := guardtest.New(t)
	c := watchcache.New(10, []string{"Service"}, w.Guard)
	w.BreakName("bad")
	c.Apply([]changes.Change{put("a", 1, nil), put("bad", 2, nil), put("c", 3, nil)}, 3, "one")
	objects, at := c.List("Service")
	if len(objects) != 2 || at.Revision != 3 {
		t.Errorf("%d objects at %d", len(objects), at.Revision)
	}
	c.Apply([]changes.Change{put("bad", 4, service("bad", 2)), put("c", 5, service("c", 3))}, 5, "one")
	events, next, _, err := c.Since("Service", at)
	if err != nil || revisions(events) != "[5]" || next.Revision != 5 {
		t.Errorf("%s up to %d, %v", revisions(events), next.Revision, err)
	}
	w.Want("Service default/bad")
	w.Mend()
	c.Apply([]changes.Change{put("bad", 6, nil)}, 6, "one")
	if events, _, _, err = c.Since("Service", next); err != nil || revisions(events) != "[6]" {
		t.Errorf("%s, %v", revisions(events), err)
	}
	w.Want()
}

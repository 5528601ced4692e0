package verifier

import (
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

// TestAServiceThatPanicsKeepsItsValues lets each step for one service panic. Values of the other services are freed and
// allocated, and those of this one stay until the step succeeds.
func TestAServiceThatPanicsKeepsItsValues(t *testing.T) {
	bad := service("bad", "u2", "10.96.0.2")
	t.Run("free", func(t *testing.T) {
		w := newTestVerifier(t, service("web", "u1", "10.96.0.1"), bad)
		w.want("10.96.0.1 u1", "10.96.0.2 u2")
		w.guard.BreakName("bad", stepFree)
		w.feed.Delete(object.KeyOf(service("web", "u1", "")), object.KeyOf(bad))
		w.feed.Put(service("new", "u3", "10.96.0.3"))
		w.passGrace()
		w.want("10.96.0.2 u2", "10.96.0.3 u3")
		w.guard.Want("Service default/bad")
		w.guard.Mend()
		w.passGrace()
		w.want("10.96.0.3 u3")
		w.guard.Want()
	})
	for _, step := range []string{changes.StepView, stepAllocate} {
		t.Run(step, func(t *testing.T) {
			w := newTestVerifier(t, service("web", "u1", "10.96.0.1"))
			w.guard.BreakName("bad", step)
			w.feed.Put(bad, service("new", "u3", "10.96.0.3"))
			w.passGrace()
			w.want("10.96.0.1 u1", "10.96.0.3 u3")
			w.guard.Want("Service default/bad")
			w.guard.Mend()
			w.feed.Put(bad)
			w.passGrace()
			w.want("10.96.0.1 u1", "10.96.0.2 u2", "10.96.0.3 u3")
			w.guard.Want()
		})
	}
	t.Run("view of a later version", func(t *testing.T) {
		w := newTestVerifier(t, bad)
		w.guard.BreakName("bad", changes.StepView)
		w.feed.Put(service("bad", "u2", "None"), service("new", "u3", "10.96.0.3"))
		w.passGrace()
		w.want("10.96.0.2 u2", "10.96.0.3 u3")
		w.guard.Want("Service default/bad")
	})
	t.Run("adopt", func(t *testing.T) {
		w := newTestVerifier(t)
		w.guard.BreakName("bad", stepAllocate)
		w.feed.Put(bad, service("web", "u1", "10.96.0.1"))
		w.epoch = "epoch-2" // the registry was restored
		w.feed.Put(service("new", "u3", "10.96.0.3"))
		w.verifier.keepReservesOnce(t.Context())
		w.want("10.96.0.1 u1", "10.96.0.3 u3")
		w.guard.Want("Service default/bad")
		if err := w.health.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
		w.guard.Mend()
		w.passGrace()
		w.want("10.96.0.1 u1", "10.96.0.2 u2", "10.96.0.3 u3")
		w.guard.Want()
	})
}

// TestANodeThatPanicsHidesNoOther has two nodes with addresses in a pool.
func TestANodeThatPanicsHidesNoOther(t *testing.T) {
	node := func(name, address string) *corev1.Node {
		return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name, Uid: name}, Status: &corev1.NodeStatus{Addresses: []*corev1.NodeAddress{{Address: address}}}}
	}
	w := newTestVerifier(t, node("bad", "10.96.0.8"), node("n1", "10.96.0.9"))
	w.guard.BreakName("bad", stepNode)
	w.passGrace()
	w.wantEvents("n1 NodeAddressInPool")
	w.guard.Want("Node bad")
	w.guard.Mend()
	w.passGrace()
	w.wantEvents("bad NodeAddressInPool")
	w.guard.Want()
}

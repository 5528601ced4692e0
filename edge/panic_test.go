package edge_test

import (
	"errors"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestAServiceThatPanicsEndsNothing lets each step for one service panic. The other one is served, and this one has an
// Event, and is served after its next change. A later panic leaves it as it is.
func TestAServiceThatPanicsEndsNothing(t *testing.T) {
	for _, step := range []string{changes.StepView, "plan", "open"} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t)
			frontend := freePort(t, balancerIP)
			broken := func(s string, o guard.Object) bool {
				return o.Name == "bad" && (s == step || s == step+" "+frontend.String())
			}
			w.broken = broken
			w.log.Put(w.object("bad", frontend, nil), slice("bad", "127.0.0.1:9"))
			w.start()
			w.service("web", nil, "127.0.0.1:9")
			w.guard.Await("Service default/bad")
			w.wantEvent("bad", guard.Reason, "panic: broken on purpose")
			if p, err := w.port(frontend); err == nil {
				t.Errorf("the port is %v", p)
			}
			w.guard.Mend()
			w.log.Put(w.object("bad", frontend, annotations{"connection-draining-enabled": "false"}))
			w.waitFor(frontend, 1)
			w.guard.Await()
			if step == "open" {
				return // the port is open
			}
			w.guard.Break(broken)
			next := freePort(t, balancerIP)
			w.log.Put(w.object("bad", next, nil))
			w.guard.Await("Service default/bad")
			w.waitFor(frontend, 1)
			w.guard.Mend()
			w.log.Put(w.object("bad", next, annotations{"connection-draining-enabled": "false"}))
			w.waitFor(next, 1)
			kittest.Eventually(t, "the former port to be closed", func() error {
				if _, err := w.port(frontend); err == nil {
					return errors.New("it is open")
				}
				return nil
			})
			w.guard.Await()
			w.guard.Break(broken)
			w.log.Put(w.object("bad", frontend, nil))
			w.guard.Await("Service default/bad")
			w.guard.Mend()
			w.log.Delete(object.Key{Kind: "Service", Namespace: "default", Name: "bad"})
			kittest.Eventually(t, "the port of the deleted service to be closed", func() error {
				if _, err := w.port(next); err == nil {
					return errors.New("it is open")
				}
				return nil
			})
			w.guard.Await()
		})
	}
}

// TestASecretThatPanicsEndsNothing has two Secrets, one of which cannot be parsed.
func TestASecretThatPanicsEndsNothing(t *testing.T) {
	w := newWorld(t)
	w.broken = func(step string, o guard.Object) bool { return step == "certificate" && o.Name == "bad" }
	for _, name := range []string{"bad", "good"} {
		w.log.Put(&corev1.Secret{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name}, Type: "kubernetes.io/tls"})
	}
	w.start()
	w.service("web", nil, "127.0.0.1:9")
	w.guard.Await("Secret default/bad")
	w.wantEvent("bad", guard.Reason, "panic: broken on purpose")
	w.log.Delete(object.Key{Kind: "Secret", Namespace: "default", Name: "bad"})
	w.guard.Await()
}

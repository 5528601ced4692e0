package nodeagent_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestAServiceThatPanicsEndsNothing lets each step for one service panic. The other one is forwarded, and this one has an
// Event, and is forwarded after its next change.
func TestAServiceThatPanicsEndsNothing(t *testing.T) {
	for _, step := range []string{changes.StepView, "plan", "edge"} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t)
			w.broken = func(s string, o guard.Object) bool { return s == step && o.Name == "bad" }
			frontends := map[string]netip.AddrPort{"bad": freePort(t), "web": freePort(t)}
			for name, at := range frontends {
				w.log.Put(service(name, at), endpoints(name, "here", backend(t, name)))
			}
			beats := w.beats()
			_, client, _ := w.start(w.config())
			w.applied(client)
			answers := func(name string, want bool) {
				t.Helper()
				kittest.Eventually(t, fmt.Sprintf("%s answers: %t", name, want), func() error {
					got, err := ask(frontends[name])
					if (err == nil && got == name+"\n") != want {
						return fmt.Errorf("got %q, %v", got, err)
					}
					return nil
				})
			}
			answers("web", true)
			answers("bad", step == "edge")
			w.guard.Await("Service default/bad")
			if e := w.event(guard.Reason); e.GetRegarding().GetName() != "bad" || e.GetReportingComponent() != "nodeagent" {
				t.Errorf("event %v", e)
			}
			if step == "plan" {
				w.beat("a heartbeat that names the service", beats, func(b *nodeagentv1.Heartbeat) bool {
					return slices.Equal(b.GetFailingServices(), []string{"default/bad"})
				})
			}
			w.guard.Mend()
			changed := service("bad", frontends["bad"])
			changed.Metadata.Labels = map[string]string{"changed": "yes"}
			w.log.Put(changed)
			answers("bad", true)
			answers("web", true)
			w.guard.Await()
		})
	}
}

// TestAPodThatPanicsEndsNothing lets each step of the probe of one pod panic. The readiness of the other pod is written.
func TestAPodThatPanicsEndsNothing(t *testing.T) {
	for _, step := range []string{"probe", "check", "readiness"} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t)
			w.broken = func(s string, o guard.Object) bool { return s == step && o.Name == "bad" }
			for _, name := range []string{"bad", "good"} {
				port := &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: int32(backend(t, name).Port())}}
				w.log.Put(&corev1.Pod{
					Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
					Spec: &corev1.PodSpec{NodeName: "here", Containers: []*corev1.Container{{Name: "main", ReadinessProbe: &corev1.Probe{
						PeriodSeconds: 1, Handler: &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Port: port}},
					}}}},
					Status: &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: "127.0.0.1", PodIps: []string{"127.0.0.1"}},
				})
			}
			w.start(w.config())
			ready := func(name string) error {
				pod, _ := w.log.Get(object.Key{Kind: "Pod", Namespace: "default", Name: name}).(*corev1.Pod)
				if !object.IsReady(pod.GetStatus().GetConditions()) {
					return fmt.Errorf("conditions %v", pod.GetStatus().GetConditions())
				}
				return nil
			}
			kittest.Eventually(t, "the good pod to be ready", func() error { return ready("good") })
			w.guard.Await("Pod default/bad")
			if err := ready("bad"); err == nil {
				t.Error("the pod is ready")
			}
			w.guard.Mend()
			w.log.Change(object.Key{Kind: "Pod", Namespace: "default", Name: "bad"}, func(o object.Object) {
				object.MetaOf(o).Labels = map[string]string{"changed": "yes"}
			})
			kittest.Eventually(t, "the bad pod to be ready", func() error { return errors.Join(ready("bad"), ready("good")) })
			w.guard.Await()
		})
	}
}

package endpointctl_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/guard/guardtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"

	"portolan.dev/endpointctl"
	"portolan.dev/endpointctl/internal/registrytest"
)

// TestSlicesOfAServiceThatPanicsAtTheStartStay starts a controller that cannot put one service into its view. It is no
// deleted service, so its slices stay.
func TestSlicesOfAServiceThatPanicsAtTheStartStay(t *testing.T) {
	r := registrytest.New(t)
	addr := r.Serve(t)
	r.Put(node("n1", "a", yes), service("web"), service("bad"), pod("web-1", "web", "10.0.0.1", true), pod("bad-1", "bad", "10.0.0.9", true))
	_, stop := start(t, r, addr, nil)
	bad := []string{"slice bad 9376: 10.0.0.9", "endpoints bad: 10.0.0.9"}
	wantObjects(t, "the objects", r, append(bad, "slice web 9376: 10.0.0.1", "endpoints web: 10.0.0.1")...)
	stop()
	host := kittest.Host(t, rpc.TCP(), r.Log.URL())
	w := guardtest.Of(t, host)
	w.Break(func(step string, o guard.Object) bool {
		return step == changes.StepView && o == guard.Object{Kind: "Service", Namespace: "default", Name: "bad"}
	})
	var cfg endpointctl.Config
	config.Defaults(&cfg)
	cfg.Addr, cfg.Registry, cfg.NATSPrefix, cfg.NodeGrace, cfg.LegacyInterval = "127.0.0.1:0", addr, changestest.Prefix, 0, 0
	startOn(t, cfg, host)
	w.Await("Service default/bad")
	r.Put(pod("web-1", "web", "10.0.0.2", true))
	wantObjects(t, "the other service to change", r, append(bad, "slice web 9376: 10.0.0.2", "endpoints web: 10.0.0.2")...)
	w.Mend()
	r.Delete(service("bad"))
	wantObjects(t, "the objects of the deleted service to be gone", r, "slice web 9376: 10.0.0.2", "endpoints web: 10.0.0.2")
	w.Await()
}

// TestAServiceThatPanicsEndsNothing lets each step for one service panic. The slices of the other service follow its
// pods, the service has an Event, and its slices are written after its next change.
func TestAServiceThatPanicsEndsNothing(t *testing.T) {
	for _, step := range []string{changes.StepView, "sync"} {
		t.Run(step, func(t *testing.T) {
			r := registrytest.New(t)
			addr := r.Serve(t)
			r.Put(node("n1", "a", yes), service("web"), service("bad"), pod("web-1", "web", "10.0.0.1", true), pod("bad-1", "bad", "10.0.0.9", true))
			host := kittest.Host(t, rpc.TCP(), r.Log.URL())
			w := guardtest.Of(t, host)
			w.BreakName("bad", step)
			var cfg endpointctl.Config
			config.Defaults(&cfg)
			cfg.Addr, cfg.Registry, cfg.NATSPrefix, cfg.NodeGrace, cfg.LegacyInterval = "127.0.0.1:0", addr, changestest.Prefix, 0, 0
			client, _ := startOn(t, cfg, host)

			w.Await("Service default/bad")
			r.Put(pod("web-2", "web", "10.0.0.2", true), pod("bad-2", "bad", "10.0.0.8", true))
			wantObjects(t, "the objects of the other service", r, "slice web 9376: 10.0.0.1 10.0.0.2", "endpoints web: 10.0.0.1 10.0.0.2")
			kittest.Eventually(t, "an event about the service", func() error {
				events := registrytest.All[*corev1.Event](r)
				if len(events) != 1 || events[0].GetReason() != guard.Reason || events[0].GetRegarding().GetName() != "bad" || events[0].GetReportingComponent() != "endpointctl" {
					return fmt.Errorf("events %v", events)
				}
				return nil
			})
			explained, err := client.ExplainService(t.Context(), &endpointsv1.ExplainServiceRequest{Name: "bad"})
			if step == "sync" && (err != nil || !strings.Contains(explained.GetFailure().GetMessage(), "panic: broken on purpose")) {
				t.Errorf("explained as %v, %v", explained, err)
			}
			w.Await("Service default/bad")
			w.Mend()
			r.Put(service("bad"))
			wantObjects(t, "the objects of both services", r, "slice web 9376: 10.0.0.1 10.0.0.2", "endpoints web: 10.0.0.1 10.0.0.2",
				"slice bad 9376: 10.0.0.8 10.0.0.9", "endpoints bad: 10.0.0.8 10.0.0.9")
			w.Await()
		})
	}
}

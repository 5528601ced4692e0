package nodeagent_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestAgentForwards follows a service that is created before the agent starts, changed while it
// runs, explained, and deleted.
func TestAgentForwards(t *testing.T) {
	w := newWorld(t)
	vip, one, two := freePort(t), backend(t, "one"), backend(t, "two")
	w.log.Put(service("web", vip), endpoints("web", "here", one))
	_, client, _ := w.start(w.config())
	w.applied(client)
	if got, err := ask(vip); got != "one\n" {
		t.Fatalf("%q %v", got, err)
	}

	w.log.Put(endpoints("web", "there", two))
	status := w.applied(client)
	seen := map[string]int{}
	for range 4 {
		got, err := ask(vip)
		if err != nil {
			t.Fatal(err)
		}
		seen[got]++
	}
	if seen["one\n"] != 2 || seen["two\n"] != 2 {
		t.Errorf("answers %v", seen)
	}
	if status.GetVirtualServers() != 1 || status.GetRealServers() != 2 || status.GetProxyMode() != "userspace" || status.GetNode() != "here" || len(status.GetFailures()) != 0 {
		t.Errorf("status %v", status)
	}

	explained, err := client.GetPlan(t.Context(), &nodeagentv1.GetPlanRequest{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	v := explained.GetVirtualServers()[0]
	if !v.GetProgrammed() || v.GetExposure() != "clusterIP" || v.GetAddress() != vip.Addr().String() || len(v.GetRealServers()) != 2 {
		t.Errorf("plan %v", v)
	}
	if r := v.GetRealServers()[0]; !r.GetUsed() || r.GetReason() != "ready" || r.GetPod() != "default/web-pod" {
		t.Errorf("backend %v", r)
	}
	if _, err := client.GetPlan(t.Context(), &nodeagentv1.GetPlanRequest{Name: "none"}); err == nil || !strings.Contains(apierr.Describe(err), "not found") {
		t.Errorf("plan of no service: %v", err)
	}

	w.log.Delete(object.Key{Kind: "Service", Namespace: "default", Name: "web"})
	w.applied(client)
	if got, err := ask(vip); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the service went: %q %v", got, err)
	}
}

// TestAgentTellsOfItsNode checks the Node object and the heartbeat, and that a deleted object is
// created again.
func TestAgentTellsOfItsNode(t *testing.T) {
	w := newWorld(t)
	beats := w.beats()
	cfg := w.config()
	cfg.NodeLabels = []string{"topology.kubernetes.io/zone=z1"}
	agent, client, _ := w.start(cfg)

	registered := func() {
		t.Helper()
		kittest.Eventually(t, "the node", func() error {
			n, ok := w.log.Get(nodeKey("here")).(*corev1.Node)
			if !ok {
				return errors.New("not there")
			}
			s := n.GetStatus()
			if s.GetProxyMode() != "userspace" || s.GetAgentAddress() != agent.APIAddr() || n.GetMetadata().GetLabels()["topology.kubernetes.io/zone"] != "z1" {
				return fmt.Errorf("node %v", n)
			}
			if len(s.GetConditions()) != 1 || s.GetConditions()[0].GetStatus() != corev1.ConditionStatus_CONDITION_STATUS_TRUE {
				return fmt.Errorf("conditions %v", s.GetConditions())
			}
			if a := s.GetAddresses(); len(a) != 2 || a[0].GetAddress() != "127.0.0.1" || a[0].GetType() != "InternalIP" {
				return fmt.Errorf("addresses %v", a)
			}
			return nil
		})
	}
	registered()
	w.log.Delete(nodeKey("here"))
	registered()

	status := w.applied(client)
	b := w.beat("a heartbeat with the applied revision", beats, func(b *nodeagentv1.Heartbeat) bool {
		return b.GetAppliedRevision() >= status.GetAppliedRevision() && b.GetSynced()
	})
	if b.GetNode() != "here" || b.GetAddress() != agent.APIAddr() || b.GetProxyMode() != "userspace" {
		t.Errorf("heartbeat %v", b)
	}
}

// TestAgentProbes checks that a pod of this node becomes ready, and a pod of another node does not.
func TestAgentProbes(t *testing.T) {
	w := newWorld(t)
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
			Spec:     &corev1.PodSpec{NodeName: node, Containers: []*corev1.Container{{Name: "main"}}},
			Status:   &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: "127.0.0.1"},
		}
	}
	w.log.Put(pod("mine", "here"), pod("foreign", "there"))
	_, client, _ := w.start(w.config())
	get := func(name string) *corev1.Pod {
		return w.log.Get(object.Key{Kind: "Pod", Namespace: "default", Name: name}).(*corev1.Pod)
	}
	kittest.Eventually(t, "the pod to be ready", func() error {
		for _, c := range get("mine").GetStatus().GetConditions() {
			if c.GetType() == "Ready" && c.GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_TRUE {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", get("mine").GetStatus().GetConditions())
	})
	if c := get("foreign").GetStatus().GetConditions(); len(c) != 0 {
		t.Errorf("another node's pod has conditions %v", c)
	}
	if n := w.applied(client).GetProbedPods(); n != 1 {
		t.Errorf("%d pods probed, want 1", n)
	}
}

// TestTakenPort checks that an event and the status name a port in use with a remedy, that
// everything else works, and that the port is served by itself once it is free.
func TestTakenPort(t *testing.T) {
	w := newWorld(t)
	taken, free, b := freePort(t), freePort(t), backend(t, "b")
	foreign, err := net.Listen("tcp", taken.String())
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	w.log.Put(service("blocked", taken), endpoints("blocked", "here", b), service("fine", free), endpoints("fine", "here", b))
	_, client, _ := w.start(w.config())
	status := w.applied(client)
	if got, err := ask(free); got != "b\n" {
		t.Errorf("the other service: %q %v", got, err)
	}
	if f := status.GetFailures(); len(f) != 1 || f[0].GetService() != "default/blocked" || !strings.Contains(f[0].GetError(), "in use") || !strings.Contains(f[0].GetRemedy(), "another program") {
		t.Errorf("failures %v", f)
	}
	e := kittest.Receive(t, "an event", w.events)
	if e.GetReason() != "FailedToListen" || e.GetRegarding().GetName() != "blocked" || e.GetType() != corev1.EventType_EVENT_TYPE_WARNING || !strings.Contains(e.GetMessage(), "another program") {
		t.Errorf("event %v", e)
	}
	explained, err := client.GetPlan(t.Context(), &nodeagentv1.GetPlanRequest{Name: "blocked"})
	if err != nil {
		t.Fatal(err)
	}
	if v := explained.GetVirtualServers()[0]; v.GetProgrammed() || !strings.Contains(v.GetError(), "in use") {
		t.Errorf("plan %v", v)
	}
	foreign.Close()
	kittest.Eventually(t, "the port to be taken", func() error {
		_, err := ask(taken)
		return err
	})
	kittest.Eventually(t, "the failure to be forgotten", func() error {
		if f := w.applied(client).GetFailures(); len(f) != 0 {
			return fmt.Errorf("failures %v", f)
		}
		return nil
	})
}

// TestStartWithoutRegistry checks that an agent without a registry forwards by its saved view, and
// reports that.
func TestStartWithoutRegistry(t *testing.T) {
	w := newWorld(t)
	vip, b := freePort(t), backend(t, "b")
	cfg := w.config()
	cfg.DataDir = t.TempDir()
	w.log.Put(service("web", vip), endpoints("web", "here", b))
	_, client, stop := w.start(cfg)
	revision := w.applied(client).GetViewRevision()
	stop()
	if got, err := ask(vip); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("after the agent stopped: %q %v", got, err)
	}
	w.stop()

	_, client, _ = w.start(cfg)
	kittest.Eventually(t, "the service to be forwarded", func() error {
		_, err := ask(vip)
		return err
	})
	status, err := client.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if status.GetSynced() || status.GetViewRevision() < revision || status.GetAppliedRevision() != status.GetViewRevision() {
		t.Errorf("status %v, want not synced and at least revision %d", status, revision)
	}
}

func TestResyncRepairs(t *testing.T) {
	w := newWorld(t)
	vip, b := freePort(t), backend(t, "b")
	w.log.Put(service("web", vip), endpoints("web", "here", b))
	agent, client, _ := w.start(w.config())
	w.applied(client)
	gone := dataplanetest.Removal(plan.Frontend{Addr: vip, Protocol: plan.TCP})
	agent.Plane().Apply(t.Context(), gone)
	if _, err := ask(vip); err == nil {
		t.Fatal("the test did not break anything")
	}
	res, err := client.Resync(t.Context(), &nodeagentv1.ResyncRequest{})
	if err != nil || res.GetRepaired() != 1 || !strings.Contains(res.GetDifferences()[0], vip.String()) {
		t.Errorf("repaired %v: %v", res, err)
	}
	if got, err := ask(vip); got != "b\n" {
		t.Errorf("after the repair: %q %v", got, err)
	}
	if again, err := client.Resync(t.Context(), &nodeagentv1.ResyncRequest{}); err != nil || again.GetRepaired() != 0 {
		t.Errorf("repaired again %v: %v", again, err)
	}
	if n := w.applied(client).GetDriftRepaired(); n != 1 {
		t.Errorf("drift repaired %d", n)
	}
}

// TestAuditRepairsByItself breaks the state in force again and again, and checks that audits find
// and repair it without a call.
func TestAuditRepairsByItself(t *testing.T) {
	w := newWorld(t)
	vip, b := freePort(t), backend(t, "b")
	w.log.Put(service("web", vip), endpoints("web", "here", b))
	agent, client, _ := w.start(w.config(), func(a *nodeagent.Daemon) { a.AuditEvery(10 * time.Millisecond) })
	w.applied(client)
	gone := dataplanetest.Removal(plan.Frontend{Addr: vip, Protocol: plan.TCP})
	for broken := range uint64(3) {
		agent.Plane().Apply(t.Context(), gone)
		kittest.Eventually(t, "the audit to repair it", func() error {
			if n := w.applied(client).GetDriftRepaired(); n != broken+1 {
				return fmt.Errorf("%d differences repaired, want %d", n, broken+1)
			}
			_, err := ask(vip)
			return err
		})
	}
	if w.applied(client).GetLastAudit() == nil {
		t.Error("the status does not say when the last audit was")
	}
}

// TestLoadBalancerWithLocalPolicy checks the node port, the health-check port, and draining.
func TestLoadBalancerWithLocalPolicy(t *testing.T) {
	w := newWorld(t)
	vip, b := freePort(t), backend(t, "b")
	nodeAddr := freePort(t)
	check := nodeAddr.Port()
	svc := service("web", vip)
	svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
	svc.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	svc.Spec.HealthCheckNodePort = int32(check)
	cfg := w.config()
	cfg.NodeAddresses = []string{nodeAddr.Addr().String()}
	w.log.Put(svc, endpoints("web", "here", b))
	_, client, _ := w.start(cfg)
	w.applied(client)
	code := func() int {
		t.Helper()
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + nodeAddr.String())
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if got := code(); got != 200 {
		t.Errorf("with a backend: %d", got)
	}
	drain := func(on bool) {
		t.Helper()
		if _, err := client.SetDraining(t.Context(), &nodeagentv1.SetDrainingRequest{Draining: on}); err != nil {
			t.Fatal(err)
		}
	}
	drain(true)
	if got := code(); got != 503 {
		t.Errorf("draining: %d", got)
	}
	drain(false)
	if got := code(); got != 200 {
		t.Errorf("no longer draining: %d", got)
	}
	w.log.Delete(object.Key{Kind: "EndpointSlice", Namespace: "default", Name: "web-here"})
	w.log.Put(endpoints("web", "there", b))
	w.applied(client)
	if got := code(); got != 503 {
		t.Errorf("with a backend elsewhere only: %d", got)
	}
}

// TestClaimedTwice checks that the older service keeps an address, that an event on the newer one
// reports it, and that the newer one gets the address once it is free.
func TestClaimedTwice(t *testing.T) {
	w := newWorld(t)
	vip, one, two := freePort(t), backend(t, "one"), backend(t, "two")
	w.log.Put(service("a", vip), endpoints("a", "here", one))
	_, client, _ := w.start(w.config())
	w.applied(client)
	w.log.Put(service("b", vip), endpoints("b", "here", two))
	w.applied(client)
	if got, err := ask(vip); got != "one\n" {
		t.Errorf("%q %v", got, err)
	}
	e := kittest.Receive(t, "an event", w.events)
	if e.GetReason() != "AddressInUse" || e.GetRegarding().GetName() != "b" || !strings.Contains(e.GetMessage(), "default/a") {
		t.Errorf("event %v", e)
	}
	explained, err := client.GetPlan(t.Context(), &nodeagentv1.GetPlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(explained.GetVirtualServers(), func(v *nodeagentv1.VirtualServer) bool { return v.GetService() == "default/b" })
	if v := explained.GetVirtualServers()[i]; v.GetProgrammed() || !strings.Contains(v.GetError(), "default/a") {
		t.Errorf("plan of b: %v", v)
	}
	w.log.Delete(object.Key{Kind: "Service", Namespace: "default", Name: "a"})
	w.applied(client)
	if got, err := ask(vip); got != "two\n" {
		t.Errorf("after the older one went: %q %v", got, err)
	}
}

package nodeagent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestViewOnDiskTellsItsAge checks that the age is in the status, the metrics and the readiness
// until the registry has answered.
func TestViewOnDiskTellsItsAge(t *testing.T) {
	w := newWorld(t)
	vip, b := freePort(t), backend(t, "b")
	cfg := w.config()
	w.log.Put(service("web", vip), endpoints("web", "here", b))
	_, client, stop := w.start(cfg)
	if s := w.applied(client); s.GetFromDisk() || s.GetViewAgeSeconds() > 60 {
		t.Errorf("status %v", s)
	}
	stop()
	w.stop()
	path := filepath.Join(cfg.DataDir, "view.pb")
	then := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
	_, client, _ = w.start(cfg)
	kittest.Eventually(t, "the service to be forwarded", func() error {
		_, err := ask(vip)
		return err
	})
	status, err := client.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if !status.GetFromDisk() || status.GetSynced() || status.GetViewAgeSeconds() < 7200 || status.GetDiskViewRefused() != "" {
		t.Errorf("status %v", status)
	}
	if age, _ := w.metric("view_age_seconds"); age < 7200 {
		t.Errorf("view_age_seconds %g", age)
	}
	if err := w.host.Health.Ready(); err == nil || !strings.Contains(err.Error(), "the view on disk, which was current at "+then.UTC().Format(time.RFC3339)) {
		t.Errorf("ready: %v", err)
	}
}

// TestBadViewsOnDisk checks that the agent reports why it does not use a file, and continues
// without it.
func TestBadViewsOnDisk(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, path string)
		want   string
	}{
		"torn": {func(t *testing.T, path string) {
			content, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, content[:len(content)-10], 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "cut off or damaged"},
		"another node's": {func(t *testing.T, path string) {
			content, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, []byte(strings.Replace(string(content), " here\n", " there\n", 1)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, `it is the view of "there", this is "here"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			vip, b := freePort(t), backend(t, "b")
			cfg := w.config()
			w.log.Put(service("web", vip), endpoints("web", "here", b))
			_, client, stop := w.start(cfg)
			w.applied(client)
			stop()
			c.change(t, filepath.Join(cfg.DataDir, "view.pb"))
			_, client, _ = w.start(cfg)
			if s := w.applied(client); !strings.Contains(s.GetDiskViewRefused(), c.want) || s.GetFromDisk() {
				t.Errorf("status %v", s)
			}
			if e := w.event("ViewOnDiskRefused"); e.GetRegarding().GetName() != "here" || !strings.Contains(e.GetMessage(), c.want) {
				t.Errorf("event %v", e)
			}
			if got, err := ask(vip); got != "b\n" {
				t.Errorf("%q %v", got, err)
			}
		})
	}
}

// TestNodePortsFollowAddresses checks that a node port is served at the node's new address.
func TestNodePortsFollowAddresses(t *testing.T) {
	w := newWorld(t)
	old, b := freePort(t), backend(t, "b")
	moved := netip.AddrPortFrom(old.Addr().Next(), old.Port())
	svc := service("web", freePort(t))
	svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
	svc.Spec.Ports[0].NodePort = int32(old.Port())
	cfg := w.config()
	cfg.NodePortAddresses = []netip.Prefix{netip.PrefixFrom(old.Addr(), 8).Masked()}
	cfg.NodeAddresses = nil
	w.log.Put(svc, endpoints("web", "here", b))
	var local atomic.Pointer[[]netip.Addr]
	local.Store(&[]netip.Addr{old.Addr(), netip.MustParseAddr("192.0.2.1")})
	agent, client, _ := w.start(cfg, func(a *nodeagent.Daemon) {
		a.SetLocal(func() ([]netip.Addr, error) { return *local.Load(), nil })
	})
	w.applied(client)
	if got, err := ask(old); got != "b\n" {
		t.Fatalf("at the first address: %q %v", got, err)
	}
	local.Store(&[]netip.Addr{moved.Addr(), netip.MustParseAddr("192.0.2.1")})
	agent.CheckSurroundings()
	kittest.Eventually(t, "the node port at the new address", func() error {
		if _, err := ask(old); !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("at the old address: %v", err)
		}
		_, err := ask(moved)
		return err
	})
}

// TestNodePortsOnLoopback checks that a node port is served at the loopback addresses of the node if the
// addresses of the node are configured.
func TestNodePortsOnLoopback(t *testing.T) {
	w := newWorld(t)
	loopback, b := freePort(t), backend(t, "b")
	svc := service("web", freePort(t))
	svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
	svc.Spec.Ports[0].NodePort = int32(loopback.Port())
	cfg := w.config()
	cfg.NodeAddresses = []string{"192.0.2.1"}
	w.log.Put(svc, endpoints("web", "here", b))
	w.start(cfg, func(a *nodeagent.Daemon) {
		a.SetLocal(func() ([]netip.Addr, error) {
			return []netip.Addr{loopback.Addr(), netip.MustParseAddr("192.0.2.1")}, nil
		})
	})
	kittest.Eventually(t, "the node port on loopback", func() error {
		got, err := ask(loopback)
		if err == nil && got != "b\n" {
			err = errors.New("the answer is " + got)
		}
		return err
	})
}

// TestUnreadableAddresses checks that the known addresses stay, and that there is an event.
func TestUnreadableAddresses(t *testing.T) {
	w := newWorld(t)
	var broken atomic.Bool
	agent, client, _ := w.start(w.config(), func(a *nodeagent.Daemon) {
		a.SetLocal(func() ([]netip.Addr, error) {
			if broken.Load() {
				return nil, errRefused
			}
			return nil, nil
		})
	})
	w.applied(client)
	broken.Store(true)
	agent.CheckSurroundings()
	if e := w.event("AddressesUnknown"); e.GetRegarding().GetKind() != "Node" {
		t.Errorf("event %v", e)
	}
	broken.Store(false)
	agent.CheckSurroundings()
	if f := w.applied(client).GetFailures(); len(f) != 0 {
		t.Errorf("failures %v", f)
	}
}

// TestOnlyWhatMattersIsKept checks that the agent keeps only its own pods and node, and that a pod
// that comes to the node later is probed like all others.
func TestOnlyWhatMattersIsKept(t *testing.T) {
	w := newWorld(t)
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
			Spec:     &corev1.PodSpec{NodeName: node, Containers: []*corev1.Container{{Name: "main"}}},
			Status:   &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: "127.0.0.1"},
		}
	}
	for i := range 50 {
		w.log.Put(pod(fmt.Sprint("foreign", i), "there"), &corev1.Node{Metadata: &corev1.ObjectMeta{Name: fmt.Sprint("n", i)}})
	}
	w.log.Put(pod("mine", "here"), pod("unplaced", ""))
	agent, client, _ := w.start(w.config())
	kept := func(what string, pods int) {
		t.Helper()
		kittest.Eventually(t, what, func() error {
			if p, n := agent.Known("Pod"), agent.Known("Node"); p != pods || n != 1 {
				return fmt.Errorf("%d pods and %d nodes are kept, want %d and 1", p, n, pods)
			}
			if n := w.applied(client).GetProbedPods(); int(n) != pods {
				return fmt.Errorf("%d pods probed", n)
			}
			return nil
		})
	}
	kept("the node's own pods", 1)
	w.log.Put(pod("unplaced", "here"))
	kept("a pod that was placed", 2)
	w.log.Put(pod("mine", "there"))
	kept("a pod that went elsewhere", 1)
}

// TestHealthz checks the answers to a load balancer and to a supervisor.
func TestHealthz(t *testing.T) {
	w := newWorld(t)
	cfg := w.config()
	cfg.HealthzAddr = "127.0.0.1:0"
	agent, client, _ := w.start(cfg)
	w.applied(client)
	get := func(path string) (int, map[string]any) {
		t.Helper()
		res, err := http.Get("http://" + agent.HealthzAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var body map[string]any
		if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, body
	}
	expect := func(what string, healthz int) {
		t.Helper()
		kittest.Eventually(t, what, func() error {
			if code, body := get("/healthz"); code != healthz || body["nodeEligible"] != (healthz == 200) {
				return fmt.Errorf("healthz %d %v", code, body)
			}
			return nil
		})
		if code, body := get("/livez"); code != 200 || body["nodeEligible"] != nil || body["currentTime"] == nil {
			t.Errorf("%s: livez %d %v", what, code, body)
		}
	}
	expect("a node that is well", 200)
	drain := func(on bool) {
		if _, err := client.SetDraining(t.Context(), &nodeagentv1.SetDrainingRequest{Draining: on}); err != nil {
			t.Fatal(err)
		}
	}
	drain(true)
	expect("a node that drains", 503)
	drain(false)
	expect("a node that no longer drains", 200)
	change := func(fn func(*corev1.Node)) {
		kittest.Eventually(t, "the node's object", func() error {
			if !w.log.Change(nodeKey("here"), func(o object.Object) { fn(o.(*corev1.Node)) }) {
				return errors.New("not there")
			}
			return nil
		})
	}
	change(func(n *corev1.Node) {
		n.Spec = &corev1.NodeSpec{Taints: []*corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: "NoSchedule"}}}
	})
	expect("a node that is about to be removed", 503)
	change(func(n *corev1.Node) { n.Spec = nil })
	expect("a node that stays after all", 200)
	change(func(n *corev1.Node) { n.Metadata.DeletionTimestamp = timestamppb.Now() })
	expect("a node that is being deleted", 503)
	if n, _ := w.metric("healthz_total", "503"); n < 3 {
		t.Errorf("%g answers 503 were counted", n)
	}
}

// TestLatencyIsMeasuredFromTheTrigger checks that each trigger counts once, even if the slice is
// programmed several times.
func TestLatencyIsMeasuredFromTheTrigger(t *testing.T) {
	w := newWorld(t)
	b := backend(t, "b")
	slice := endpoints("web", "here", b)
	at := time.Now().Add(-time.Hour)
	slice.Metadata.Annotations = map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": at.Format(time.RFC3339Nano)}
	w.log.Put(service("web", freePort(t)), slice)
	_, client, _ := w.start(w.config())
	w.applied(client)
	expect := func(count, atLeast float64) {
		t.Helper()
		kittest.Eventually(t, "the latency", func() error {
			if n, sum := w.metric("network_programming_duration_seconds"); n != count || sum < atLeast {
				return fmt.Errorf("%g observations, %g seconds in all", n, sum)
			}
			return nil
		})
	}
	expect(1, 3600)
	slice.Endpoints[0].Weight = new(uint32)
	w.log.Put(slice)
	w.applied(client)
	expect(1, 3600)
	slice.Metadata.Annotations["endpoints.kubernetes.io/last-change-trigger-time"] = at.Add(time.Minute).Format(time.RFC3339Nano)
	w.log.Put(slice)
	w.applied(client)
	expect(2, 3600+3540)
	for _, name := range []string{"sync_duration_seconds", "last_sync_timestamp_seconds", "applied_revision", "virtual_servers"} {
		if n, _ := w.metric(name); n == 0 {
			t.Errorf("metric %s is 0", name)
		}
	}
	if n, _ := w.metric("programmed_frontends_total"); n < 1 {
		t.Errorf("%g frontends programmed", n)
	}
	kittest.Eventually(t, "the queue to be empty", func() error { // which it is after the metrics of the last sync
		if age, _ := w.metric("queue_age_seconds"); age != 0 {
			return fmt.Errorf("a queue of %g s", age)
		}
		return nil
	})
}

// TestProxyModeIsAGauge checks that the mode in use has the value 1, and that no other mode has a
// value.
func TestProxyModeIsAGauge(t *testing.T) {
	w := newWorld(t)
	_, client, _ := w.start(w.config())
	w.applied(client)
	for mode, want := range map[string]float64{"userspace": 1, "ipvs": 0, "nftables": 0} {
		if got, _ := w.metric("proxy_mode", mode); got != want {
			t.Errorf("portolan_nodeagent_proxy_mode of %s is %g, want %g", mode, got, want)
		}
	}
}

package ipvs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestAgent checks that an agent finds IPVS by itself, that its state in the kernel outlives it,
// and that the next agent takes it over: connections continue, and services that were deleted in
// between are removed.
func TestAgent(t *testing.T) {
	w := newAgentWorld(t)
	backend := echo(t, w.Network)
	stays, goes := fresh(t, w.Network), fresh(t, w.Network)
	w.log.Put(service("stays", stays), endpoints("stays", backend), service("goes", goes), endpoints("goes", backend))

	client, stop := w.start()
	if s := w.applied(client); s.GetProxyMode() != "ipvs" || s.GetVirtualServers() != 2 || len(s.GetFailures()) > 0 {
		t.Fatalf("status %v", s)
	}
	conversation, err := talk(t, w.Network, dataplanetest.Node, stays)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(when string) {
		t.Helper()
		if _, err := conversation.ask(); err != nil {
			t.Fatalf("%s: the connection: %v", when, err)
		}
		if err := w.reach(dataplanetest.Node, stays); err != nil {
			t.Fatalf("%s: a new connection: %v", when, err)
		}
	}
	ask("at first")
	stop()
	ask("without an agent")
	w.log.Delete(object.Key{Kind: "Service", Namespace: "default", Name: "goes"})
	client, stop = w.start()
	ask("with the next agent")
	kittest.Eventually(t, "the service that went to be gone", func() error {
		if err := w.reach(dataplanetest.Node, goes); !errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("answered with %v", err)
		}
		return nil
	})
	if res, err := client.Resync(t.Context(), &nodeagentv1.ResyncRequest{}); err != nil || res.GetRepaired() > 0 {
		t.Errorf("the audit finds %v, %v", res, err)
	}
	stop()
	w.cleanup()
}

// TestAgentIsKilledUnderLoad kills agents, even before they have taken over the kernel's state, and
// replaces them while clients connect and backends change. No connection may be lost.
func TestAgentIsKilledUnderLoad(t *testing.T) {
	w := newAgentWorld(t)
	at := fresh(t, w.Network)
	one, two, three := echo(t, w.Network), echo(t, w.Network), echo(t, w.Network)
	w.log.Put(service("web", at), endpoints("web", one, two))
	agent := w.spawn("ipvs")
	w.applied(w.client())
	stop := w.load(at)
	for _, backends := range [][]netip.AddrPort{{two, three}, {one, two, three}} {
		agent.end(syscall.SIGKILL)
		w.log.Put(endpoints("web", backends...))
		agent = w.spawn("ipvs")
		w.listening()
		agent.end(syscall.SIGKILL) // during its start
		agent = w.spawn("ipvs")
		if s := w.applied(w.client()); len(s.GetFailures()) > 0 || int(s.GetRealServers()) != len(backends) {
			t.Errorf("status %v", s)
		}
	}
	agent.end(syscall.SIGTERM) // as for an upgrade
	agent = w.spawn("ipvs")
	w.applied(w.client())
	if err := stop(); err != nil {
		t.Error(err)
	}
	agent.end(syscall.SIGTERM)
	w.cleanup()
}

// TestModeChangesToUserspace checks that the userspace mode takes over from the kernel and gives
// back to it. The address belongs to a device, which must make no difference.
func TestModeChangesToUserspace(t *testing.T) {
	w := newAgentWorld(t)
	at := fresh(t, w.Network)
	w.own(at.Addr())
	w.log.Put(service("web", at), endpoints("web", echo(t, w.Network)))
	for _, mode := range []string{"ipvs", "userspace", "nftables", "userspace"} {
		agent := w.spawn(mode)
		if s := w.applied(w.client()); s.GetProxyMode() != mode || len(s.GetFailures()) > 0 {
			t.Fatalf("status %v", s)
		}
		for _, from := range []dataplanetest.ClientLocation{dataplanetest.Inside, dataplanetest.Node, dataplanetest.Outside} {
			if err := w.reach(from, at); err != nil {
				t.Errorf("mode %s: %s: %v", mode, from, err)
			}
		}
		if servers := strings.Contains(table(t, w.Network), "TCP "); servers != (mode == "ipvs") {
			t.Errorf("mode %s: virtual servers of IPVS: %t", mode, servers)
		}
		agent.end(syscall.SIGTERM)
	}
	w.cleanup()
}

// TestServiceWithMissingScheduler checks that a service with a scheduler that the kernel lacks is
// served by rr, and that its status reports it.
func TestServiceWithMissingScheduler(t *testing.T) {
	w := newAgentWorld(t)
	kerneltest.WithoutModules(t, "ip_vs_mh")
	at := fresh(t, w.Network)
	w.log.Put(service("web", at, func(s *corev1.Service) { s.Spec.Scheduler = corev1.Scheduler_SCHEDULER_MH }),
		endpoints("web", echo(t, w.Network)))
	client, stop := w.start()
	if e := w.event("NotSupportedByDataPlane"); !strings.Contains(e.GetMessage(), "ip_vs_mh") {
		t.Errorf("event %v", e)
	}
	if s := w.applied(client); len(s.GetFailures()) == 0 {
		t.Errorf("status %v", s)
	}
	if err := w.reach(dataplanetest.Inside, at); err != nil {
		t.Error(err)
	}
	stop()
	w.cleanup()
}

// TestNodePortsOfTheNode checks that node ports are served at the chosen addresses of the node,
// including ones that are added later, and on loopback, and that load balancers see whether the
// node has backends.
func TestNodePortsOfTheNode(t *testing.T) {
	w := newAgentWorld(t)
	w.cfg.NodePortAddresses = []netip.Prefix{netip.MustParsePrefix("172.31.3.0/24"), netip.MustParsePrefix("127.0.0.0/8")}
	at := fresh(t, w.Network)
	port := w.Frontend(t, plan.NodePort, plan.TCP, false).Port()
	check := port + 1000
	backend := echo(t, w.Network)
	w.log.Put(service("web", at, func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
		s.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
		s.Spec.Ports[0].NodePort, s.Spec.HealthCheckNodePort = int32(port), int32(check)
	}), endpoints("web", backend))
	_, stop := w.start()
	chosen, other, later := w.NodeAddrs(false)[2], w.NodeAddrs(false)[0], netip.MustParseAddr("172.31.3.77")
	for _, c := range []struct {
		from dataplanetest.ClientLocation
		addr netip.Addr
	}{{dataplanetest.Outside, chosen}, {dataplanetest.Inside, chosen}, {dataplanetest.Node, chosen}, {dataplanetest.Node, netip.MustParseAddr("127.0.0.1")}} {
		if err := w.reach(c.from, netip.AddrPortFrom(c.addr, port)); err != nil {
			t.Errorf("%s: %v", c.from, err)
		}
	}
	if err := w.reach(dataplanetest.Outside, netip.AddrPortFrom(other, port)); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("at an address that was not chosen: %v", err)
	}
	w.Node.Link(t, "outside", []netip.Prefix{netip.PrefixFrom(later, 24)})
	kittest.Eventually(t, "the node port at a new address", func() error {
		return w.reach(dataplanetest.Outside, netip.AddrPortFrom(later, port))
	})

	const form = `{"service":{"namespace":"default","name":"web"},"localEndpoints":%d,"serviceProxyHealthy":true}`
	w.health(netip.AddrPortFrom(chosen, check), http.StatusOK, fmt.Sprintf(form, 1))
	leaving := endpoints("web", backend)
	yes, no := true, false
	leaving.Endpoints[0].Conditions = &corev1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
	w.log.Put(leaving)
	w.health(netip.AddrPortFrom(chosen, check), http.StatusServiceUnavailable, fmt.Sprintf(form, 0))
	if err := w.reach(dataplanetest.Outside, netip.AddrPortFrom(chosen, port)); err != nil {
		t.Errorf("the last backend, which is leaving: %v", err)
	}
	stop()
	w.cleanup()
}

// health waits for an answer of a health-check port to an external load balancer.
func (w *agentWorld) health(at netip.AddrPort, code int, body string) {
	w.t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			source := netip.AddrPortFrom(w.ClientAddr(dataplanetest.Outside, 0, false), 0)
			return w.Dial(ctx, dataplanetest.Outside, source, plan.TCP, at)
		},
	}}
	kittest.Eventually(w.t, fmt.Sprintf("health check %d %s", code, body), func() error {
		res, err := client.Get("http://" + at.String() + "/")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		got, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != code || string(got) != body {
			return fmt.Errorf("got %d %s, %w", res.StatusCode, got, err)
		}
		return nil
	})
}

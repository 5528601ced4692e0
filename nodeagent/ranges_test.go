package nodeagent_test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/services/kit/kittest"
)

// TestUserspaceListensInItsRangesOnly gives a service an external IP, a load balancer's address and
// a cluster IP that are addresses of the machine outside of the agent's ranges. The agent must not
// listen there. Its other addresses must work, and an event must name the reason.
func TestUserspaceListensInItsRangesOnly(t *testing.T) {
	w := newWorld(t)
	inside, b := freePort(t), backend(t, "b")
	outside := []netip.Addr{netip.MustParseAddr("127.0.0.77"), netip.MustParseAddr("127.0.0.78"), netip.MustParseAddr("127.95.0.1")}
	web := service("web", inside)
	web.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
	web.Spec.ExternalIps = []string{outside[0].String()}
	web.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: outside[1].String()}}}}
	odd := service("odd", netip.AddrPortFrom(outside[2], inside.Port()))
	w.log.Put(web, endpoints("web", "here", b), odd, endpoints("odd", "here", b))
	cfg := w.config()
	cfg.UserspaceRanges = []netip.Prefix{netip.MustParsePrefix("127.96.0.0/11"), netip.MustParsePrefix("127.0.0.1/32")}
	_, client, _ := w.start(cfg)
	w.applied(client)
	kittest.Eventually(t, "the service at its cluster IP", func() error { _, err := ask(inside); return err })
	for _, addr := range outside {
		at := netip.AddrPortFrom(addr, inside.Port()).String()
		if conn, err := net.Dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v %v, want no listener", at, conn, err)
		}
	}
	if event := w.event("NotSupportedByDataPlane"); !strings.Contains(event.GetMessage(), "outside of the ranges in which this node listens (127.96.0.0/11, 127.0.0.1/32)") {
		t.Errorf("event %v", event)
	}
	plan, err := client.GetPlan(t.Context(), &nodeagentv1.GetPlanRequest{Namespace: "default", Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	programmed := map[string]bool{}
	for _, server := range plan.GetVirtualServers() {
		programmed[server.GetAddress()] = server.GetProgrammed()
		if refused := strings.Contains(server.GetError(), "-userspace-ranges"); refused == server.GetProgrammed() {
			t.Errorf("%s: programmed %v, %q", server.GetAddress(), server.GetProgrammed(), server.GetError())
		}
	}
	if len(programmed) != 3 || !programmed[inside.Addr().String()] {
		t.Errorf("addresses %v", programmed)
	}
}

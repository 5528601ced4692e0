package syncloop

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"
)

// kernelLike is a plane with the name of one in the kernel.
type kernelLike struct{ dataplane.Plane }

func (kernelLike) Name() string { return "nftables" }

// TestATakenNodePortIsReportedInKernelModes checks that the conflict is reported once, in an Event
// and in the status, as long as the program listens. The service is forwarded, so there is no
// failure.
func TestATakenNodePortIsReportedInKernelModes(t *testing.T) {
	plane := userspace.New(userspace.Options{})
	defer plane.Close()
	b := newBench(t, kernelLike{plane})
	const port = 30080
	listening := []plan.Frontend{{Addr: netip.AddrPortFrom(netip.IPv6Unspecified(), port), Protocol: plan.TCP}}
	b.SetFacts(plan.Facts{Node: "here", NodePorts: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, plan.Sources{})
	svc := webService("web", 1, netip.MustParseAddrPort("127.101.7.8:80"))
	svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
	svc.Spec.Ports[0].NodePort = port
	b.change(svc)
	b.sync(t.Context())
	b.CheckNodePorts(listening)
	b.CheckNodePorts(listening)
	want := fmt.Sprintf("NodePortTaken web: node port %d/TCP", port)
	if got := b.problems(); len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("events %q", got)
	}
	var status nodeagentv1.GetStatusResponse
	b.FillStatus(&status)
	if f := status.GetFailures(); len(f) != 1 || f[0].GetService() != "default/web" || f[0].GetRemedy() == "" {
		t.Errorf("status %v", f)
	}
	if p := b.progress(); p.failures != 0 || len(p.services) != 0 {
		t.Errorf("progress %+v, and the service is forwarded", p)
	}
	b.CheckNodePorts(nil)
	if got := b.others.list(true); len(got) != 0 {
		t.Errorf("still there: %v", got)
	}
}

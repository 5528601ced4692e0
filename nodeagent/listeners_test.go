package nodeagent

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// kernelLike is a plane with the name of one in the kernel.
type kernelLike struct{ dataplane.Plane }

func (kernelLike) Name() string { return nftablesMode }

// TestATakenNodePortIsReportedInKernelModes checks that the conflict is reported once, in an Event
// and in the status, as long as the program listens. The service is forwarded, so there is no
// failure.
func TestATakenNodePortIsReportedInKernelModes(t *testing.T) {
	plane := userspace.New(userspace.Options{})
	defer plane.Close()
	b := newBench(t, kernelLike{plane})
	lis, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	port := uint16(lis.Addr().(*net.TCPAddr).Port)
	listening := func() bool {
		return slices.ContainsFunc(listeners(), func(f plan.Frontend) bool { return f.Addr.Port() == port && f.Protocol == plan.TCP })
	}
	if !listening() {
		t.Fatalf("port %d is not among those that are listened on", port)
	}
	b.setFacts(plan.Facts{Node: "here", NodePorts: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, plan.Sources{})
	svc := webService("web", 1, netip.MustParseAddrPort("127.101.7.8:80"))
	svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
	svc.Spec.Ports[0].NodePort = int32(port)
	b.change(svc)
	b.sync(t.Context())
	b.lookAtNodePorts(listeners())
	b.lookAtNodePorts(listeners())
	want := fmt.Sprintf("NodePortTaken web: node port %d/TCP", port)
	if got := b.problems(); len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("events %q", got)
	}
	var status nodeagentv1.GetStatusResponse
	b.describe(&status)
	if f := status.GetFailures(); len(f) != 1 || f[0].GetService() != "default/web" || f[0].GetRemedy() == "" {
		t.Errorf("status %v", f)
	}
	if st := b.standing(); st.failures != 0 || len(st.services) != 0 {
		t.Errorf("standing %+v, and the service is forwarded", st)
	}
	lis.Close()
	kittest.Eventually(t, "the port to be free", func() error {
		if listening() {
			return fmt.Errorf("port %d is listened on", port)
		}
		return nil
	})
	b.lookAtNodePorts(listeners())
	if got := b.troubles.list(true); len(got) != 0 {
		t.Errorf("still there: %v", got)
	}
}

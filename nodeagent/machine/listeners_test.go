package machine

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// TestListeners checks that a port is among the listeners exactly as long as a program listens.
func TestListeners(t *testing.T) {
	lis, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	port := uint16(lis.Addr().(*net.TCPAddr).Port)
	listening := func() bool {
		return slices.ContainsFunc(Userspace{}.Listeners(), func(f plan.Frontend) bool { return f.Addr.Port() == port && f.Protocol == plan.TCP })
	}
	if !listening() {
		t.Errorf("port %d is not among those that are listened on", port)
	}
	lis.Close()
	kittest.Eventually(t, "the port to be free", func() error {
		if listening() {
			return fmt.Errorf("port %d is listened on", port)
		}
		return nil
	})
}

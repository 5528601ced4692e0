package host_test

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
)

// TestForgetFlowsThatAreNotThere checks that it is no error to forget flows of both families that
// do not exist.
func TestForgetFlowsThatAreNotThere(t *testing.T) {
	kerneltest.Need(t)
	var c *host.Conntrack
	err := topology.New(t, "node").Do(func() (err error) {
		c, err = host.NewConntrack()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var flows []host.Flow
	for _, text := range []string{"10.96.0.1:80", "[fd00:96::1]:80"} {
		at := netip.MustParseAddrPort(text)
		flows = append(flows, host.Flow{Frontend: at, Protocol: unix.IPPROTO_TCP, Backend: netip.AddrPortFrom(at.Addr().Next(), 80)})
	}
	if err := c.Forget(flows, nil); err != nil {
		t.Error(err)
	}
	if err := c.Forget(nil, flows); err != nil {
		t.Error(err)
	}
}

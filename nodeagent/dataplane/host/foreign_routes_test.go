package host_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
)

// TestRoutesOfOthersStay checks that a local route of another program is neither replaced nor removed if a plane needs
// one for the same prefix, and that the plane has a route of its own once the other one is gone.
func TestRoutesOfOthersStay(t *testing.T) {
	kerneltest.Need(t)
	ns := topology.New(t, "node")
	for _, text := range []string{"10.96.0.0/16", "203.0.113.7/32", "fd00:96::/112"} {
		p := netip.MustParsePrefix(text)
		err := ns.Do(func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			theirs := &netlink.Route{
				Dst: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, LinkIndex: lo.Attrs().Index,
				Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Protocol: unix.RTPROT_STATIC,
			}
			if p.Addr().Is4() {
				theirs.Scope = netlink.SCOPE_HOST
			}
			if err := netlink.RouteAdd(theirs); err != nil {
				return err
			}
			r, err := host.NewRoutes(host.PlaneRoutes)
			if err != nil {
				return err
			}
			defer r.Close()
			if err := r.Add(p); err != nil {
				return err
			}
			if own := r.All(); len(own) > 0 || !r.Has(p) || !r.IsLocal(p.Addr()) {
				t.Errorf("%s: own routes %v, has a route %t", p, own, r.Has(p))
			}
			if err := r.Delete(p); err != nil {
				return err
			}
			if err := netlink.RouteDel(theirs); err != nil { // it is still there
				return err
			}
			if err := r.Read(); err != nil {
				return err
			}
			if r.Has(p) || r.IsLocal(p.Addr()) {
				t.Errorf("%s: a route that was removed is still known", p)
			}
			if err := r.Add(p); err != nil {
				return err
			}
			if own := r.All(); len(own) != 1 {
				t.Errorf("%s: own routes %v", p, own)
			}
			return r.Delete(p)
		})
		if err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

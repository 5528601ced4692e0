package ipvs_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// TestUserspaceConformance runs the scenarios on the userspace plane with real virtual addresses. The plane must
// listen in the namespace of its process, so this test is in a package that is tested in a kernel of its own. The
// tests of package userspace use loopback addresses.
func TestUserspaceConformance(t *testing.T) {
	kerneltest.Need(t)
	rig := newUserspaceRig(t)
	dataplanetest.Run(t, func(*testing.T) dataplanetest.Rig { return rig })
}

// userspaceRig is a rig of the userspace plane in the namespace of the process.
type userspaceRig struct {
	*netnstest.Network
	plane    *userspace.Plane
	others   map[string]bool // the inventory without the plane
	occupied []netip.Prefix  // addresses of a device
}

func newUserspaceRig(t *testing.T) *userspaceRig {
	node := topology.Own(t, "node")
	node.Sysctl(t, "net.ipv4.icmp_ratelimit", "0")
	node.Sysctl(t, "net.ipv4.ip_forward", "1") // pods reach backends through the node
	node.Sysctl(t, "net.ipv6.conf.all.forwarding", "1")
	r := &userspaceRig{Network: netnstest.Around(t, node)}
	r.others = r.inventory(t)
	r.open(t)
	t.Cleanup(func() {
		if err := r.plane.Close(); err != nil {
			t.Error(err)
		}
		r.RemoveForeign(t)
		r.removeAddresses(t)
	})
	return r
}

func (r *userspaceRig) open(t testing.TB) {
	t.Helper()
	log := kittest.Logger(t)
	locals, err := kernel.OpenLocals(kernel.Options{
		Log: log, Journal: filepath.Join(filepath.Dir(r.Journal), "userspace.journal"), ServiceCIDRs: netnstest.Virtual[:], StrictARP: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.plane = userspace.New(userspace.Options{Log: log, Locals: locals})
}

func (r *userspaceRig) inventory(t testing.TB) map[string]bool {
	t.Helper()
	lines, err := netnstest.Inventory(r.Node)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func (r *userspaceRig) Plane() dataplane.Plane       { return r.plane }
func (r *userspaceRig) Traits() dataplanetest.Traits { return dataplanetest.Userspace }
func (r *userspaceRig) Machine() dataplanetest.Machine {
	return dataplanetest.Machine{IPv6: true, Sources6: true}
}

func (r *userspaceRig) Restart(t testing.TB) {
	t.Helper()
	if err := r.plane.Close(); err != nil {
		t.Error(err)
	}
	r.open(t)
}

// Cleanup ends the plane, which must leave nothing.
func (r *userspaceRig) Cleanup(t testing.TB) error {
	t.Helper()
	if err := r.plane.Close(); err != nil {
		return err
	}
	wrong := netnstest.Differences(r.others, r.inventory(t))
	r.open(t)
	if len(wrong) > 0 {
		return fmt.Errorf("after the end of the plane: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// Damage removes the routes of the plane.
func (r *userspaceRig) Damage(t testing.TB) {
	t.Helper()
	if removeRoutes(t, r.Node) == 0 {
		t.Fatal("there was nothing to take away")
	}
}

// Alter does nothing, because no other program can change the sockets of the plane.
func (r *userspaceRig) Alter(testing.TB, plan.Frontend) {}

// Occupy gives the address to a device, and the port to another program.
func (r *userspaceRig) Occupy(t testing.TB, at plan.Frontend) (intact func() error) {
	t.Helper()
	before := r.inventory(t)
	r.Foreign(t)
	r.occupied = append(r.occupied, netip.PrefixFrom(at.Addr.Addr(), at.Addr.Addr().BitLen()))
	r.Node.Link(t, "lo", r.occupied[len(r.occupied)-1:])
	for line := range r.inventory(t) {
		if !before[line] {
			r.others[line] = true
		}
	}
	lis, err := net.Listen("tcp", at.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "theirs") //nolint:errcheck // the test notices
			conn.Close()
		}
	}()
	return func() error {
		now := r.inventory(t)
		for line := range r.others {
			if !now[line] {
				return fmt.Errorf("somebody else's has gone: %s", line)
			}
		}
		conn, err := net.Dial("tcp", at.Addr.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		said, err := io.ReadAll(conn)
		if string(said) != "theirs" {
			return errors.Join(fmt.Errorf("somebody else's socket says %q", said), err)
		}
		return nil
	}
}

// removeAddresses takes the occupied addresses from the device.
func (r *userspaceRig) removeAddresses(t testing.TB) {
	t.Helper()
	err := r.Node.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, p := range r.occupied {
			addr, err := netlink.ParseAddr(p.String())
			if err == nil {
				err = netlink.AddrDel(lo, addr)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// removeRoutes removes the routes of a plane from a namespace, and returns their number.
func removeRoutes(t testing.TB, in *topology.Namespace) (n int) {
	t.Helper()
	err := in.Do(func() error {
		filter := &netlink.Route{Table: 255, Protocol: 112}
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			routes, err := netlink.RouteListFiltered(family, filter, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
			if err != nil {
				return err
			}
			for i := range routes {
				if err := netlink.RouteDel(&routes[i]); err != nil {
					return err
				}
				n++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

package userspace_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

func TestConformance(t *testing.T) {
	dataplanetest.Run(t, func(t *testing.T) dataplanetest.Rig { return newRig(t, userspace.Options{}) })
}

// TestInForceIsPlanned checks that the plan is in force after any batch of changes.
func TestInForceIsPlanned(t *testing.T) { dataplanetest.Batches(t, newRig(t, userspace.Options{})) }

// rig runs everything on loopback addresses, of which Linux has a whole /8. Backends are in
// 127.64.0.0/16, client pods in 127.77.0.0/16, external clients in 127.88.0.0/16, frontends in
// 127.96.0.0/11. IPv6 has a single loopback address.
type rig struct {
	options userspace.Options
	plane   *userspace.Plane
	ipv6    bool
	port    uint16 // of all frontends except node ports; 0: not chosen yet
	nodes   []netip.Addr
}

func newRig(t testing.TB, o userspace.Options) *rig {
	o.Log = kittest.Logger(t)
	r := &rig{options: o, plane: userspace.New(o), nodes: []netip.Addr{
		netip.MustParseAddr("127.0.0.1"), netip.AddrFrom4([4]byte{127, 48, byte(rand.N(256)), byte(1 + rand.N(254))}),
	}}
	t.Cleanup(func() { r.plane.Close() })
	if lis, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		lis.Close()
		r.ipv6 = true
	}
	return r
}

func (r *rig) Plane() dataplane.Plane { return r.plane }

// connections returns the connections of one server's backends.
func (r *rig) connections(key plan.Key) map[netip.AddrPort]uint32 {
	return r.plane.Connections(key)[key]
}

func (r *rig) Restart(t testing.TB) {
	if err := r.plane.Close(); err != nil {
		t.Error(err)
	}
	r.plane = userspace.New(r.options)
}

// Cleanup ends the process, which leaves nothing of this plane.
func (r *rig) Cleanup(t testing.TB) error {
	r.Restart(t)
	return nil
}

// Damage does nothing, because this plane has no state outside the process.
func (r *rig) Damage(testing.TB) {}

// Alter does nothing, for the same reason.
func (r *rig) Alter(testing.TB, plan.Frontend) {}

// Occupy listens at a frontend with a program of its own.
func (r *rig) Occupy(t testing.TB, at plan.Frontend) (intact func() error) {
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

func (r *rig) Traits() dataplanetest.Traits { return dataplanetest.Userspace }

func (r *rig) Machine() dataplanetest.Machine { return dataplanetest.Machine{IPv6: r.ipv6} }

func (r *rig) Sources() plan.Sources {
	return plan.Sources{
		Pods: []netip.Prefix{
			netip.MustParsePrefix("127.64.0.0/16"), netip.MustParsePrefix("127.77.0.0/16"), netip.MustParsePrefix("::1/128"),
		},
		Node: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}
}

func (r *rig) ClientAddr(from dataplanetest.ClientLocation, n int, v6 bool) netip.Addr {
	switch {
	case v6:
		return netip.IPv6Loopback()
	case from == dataplanetest.Inside:
		return netip.AddrFrom4([4]byte{127, 77, byte(n / 250), byte(n%250 + 1)})
	case from == dataplanetest.Outside:
		return netip.AddrFrom4([4]byte{127, 88, byte(n / 250), byte(n%250 + 1)})
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

func (r *rig) NodeAddrs(v6 bool) []netip.Addr {
	if v6 { // IPv6 has one loopback address
		return []netip.Addr{netip.IPv6Loopback(), netip.IPv6Loopback()}
	}
	return r.nodes
}

// Frontend returns a frontend with a free port at an address that nothing else uses.
func (r *rig) Frontend(t testing.TB, e plan.Exposure, p plan.Protocol, v6 bool) netip.AddrPort {
	t.Helper()
	addr := netip.AddrFrom4([4]byte{127, 96 + byte(rand.N(32)), byte(rand.N(256)), byte(1 + rand.N(254))})
	switch {
	case v6:
		return free(t, p, netip.IPv6Loopback())
	case e == plan.NodePort:
		return free(t, p, r.nodes[0])
	case r.port == 0:
		r.port = free(t, p, addr).Port()
	}
	return netip.AddrPortFrom(addr, r.port)
}

func free(t testing.TB, p plan.Protocol, addr netip.Addr) netip.AddrPort {
	t.Helper()
	lis, packet := open(t, p, addr)
	if lis != nil {
		defer lis.Close()
		return lis.Addr().(*net.TCPAddr).AddrPort()
	}
	defer packet.Close()
	return packet.LocalAddr().(*net.UDPAddr).AddrPort()
}

func open(t testing.TB, p plan.Protocol, addr netip.Addr) (net.Listener, net.PacketConn) {
	t.Helper()
	var lis net.Listener
	var packet net.PacketConn
	var err error
	if p == plan.UDP {
		packet, err = net.ListenPacket("udp", netip.AddrPortFrom(addr, 0).String())
	} else {
		lis, err = dataplanetest.ListenTCP(netip.AddrPortFrom(addr, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	return lis, packet
}

func (r *rig) Listen(t testing.TB, p plan.Protocol, v6 bool) (net.Listener, net.PacketConn) {
	t.Helper()
	addr := netip.AddrFrom4([4]byte{127, 64, byte(rand.N(256)), byte(1 + rand.N(254))})
	if v6 {
		addr = netip.IPv6Loopback()
	}
	return open(t, p, addr)
}

func (r *rig) ListenNode(t testing.TB, v6 bool) net.Listener {
	t.Helper()
	addr := netip.IPv4Unspecified()
	if v6 {
		addr = netip.IPv6Unspecified()
	}
	lis, _ := open(t, plan.TCP, addr)
	return lis
}

func (r *rig) Dial(ctx context.Context, _ dataplanetest.ClientLocation, source netip.AddrPort, p plan.Protocol, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(source)}
	network := "tcp"
	if p == plan.UDP {
		d.LocalAddr, network = net.UDPAddrFromAddrPort(source), "udp"
	}
	return d.DialContext(ctx, network, to.String())
}

// dialAs connects as the n-th internal client.
func (r *rig) dialAs(ctx context.Context, n int, p plan.Protocol, to netip.AddrPort) (net.Conn, error) {
	addr := r.ClientAddr(dataplanetest.Inside, n, to.Addr().Is6())
	return r.Dial(ctx, dataplanetest.Inside, netip.AddrPortFrom(addr, 0), p, to)
}

var _ dataplanetest.Rig = (*rig)(nil)

package userspace_test

import (
	"context"
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

// rig plays everything on loopback addresses, of which Linux has a whole /8:
// pods are in 127.77.0.0/16, clients outside in 127.88.0.0/16, frontends in
// 127.96.0.0/11.
type rig struct {
	plane *userspace.Plane
	ipv6  bool
}

func newRig(t testing.TB, o userspace.Options) *rig {
	o.Log = kittest.Logger(t)
	r := &rig{plane: userspace.New(o)}
	t.Cleanup(func() { r.plane.Close() })
	if lis, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		lis.Close()
		r.ipv6 = true
	}
	return r
}

func (r *rig) Plane() dataplane.Plane { return r.plane }

func (r *rig) Traits() dataplanetest.Traits {
	return dataplanetest.Traits{Retries: true, IPv6: r.ipv6}
}

func (r *rig) Sources() plan.Sources {
	return plan.Sources{
		Pods: []netip.Prefix{netip.MustParsePrefix("127.77.0.0/16"), netip.MustParsePrefix("::1/128")},
		Node: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}
}

func (r *rig) ClientAddr(from dataplanetest.Vantage, n int, v6 bool) netip.Addr {
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

// Frontend finds a port that is free on an address that nobody else has.
func (r *rig) Frontend(t testing.TB, p plan.Protocol, v6 bool) netip.AddrPort {
	t.Helper()
	addr := netip.AddrFrom4([4]byte{127, 96 + byte(rand.N(32)), byte(rand.N(256)), byte(1 + rand.N(254))})
	if v6 {
		addr = netip.IPv6Loopback()
	}
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
		lis, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
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

func (r *rig) Dial(ctx context.Context, from dataplanetest.Vantage, n int, p plan.Protocol, to netip.AddrPort) (net.Conn, error) {
	addr := r.ClientAddr(from, n, to.Addr().Is6())
	local := netip.AddrPortFrom(addr, 0)
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(local)}
	network := "tcp"
	if p == plan.UDP {
		d.LocalAddr, network = net.UDPAddrFromAddrPort(local), "udp"
	}
	return d.DialContext(ctx, network, to.String())
}

var _ dataplanetest.Rig = (*rig)(nil)

package ipvs_test

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// The addresses of the tests' network: a node between a namespace of backends,
// one of pods that are clients, and one of clients outside.
var (
	virtual = [2]netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}
	pods    = [2]netip.Prefix{netip.MustParsePrefix("10.64.0.0/15"), netip.MustParsePrefix("fd00:64::/63")}
	serving = [2]netip.Prefix{netip.MustParsePrefix("10.64.0.0/16"), netip.MustParsePrefix("fd00:64::/64")}
	asking  = [2]netip.Prefix{netip.MustParsePrefix("10.65.0.0/16"), netip.MustParsePrefix("fd00:64:0:1::/64")}
	outside = [2]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")}
	nodeIPs = [2]netip.Addr{netip.MustParseAddr("172.31.1.1"), netip.MustParseAddr("fd00:31:1::1")}
)

// ports counts the connections of the tests: each has a source port that no
// other one had for long, below those that the kernel chooses from.
var ports atomic.Uint32

func sourcePort() uint16 { return uint16(10000 + ports.Add(1)%20000) }

// network is what one plane stands in.
type network struct {
	node, backends, clients, world *topology.Namespace
	journal                        string
	// Counters: each backend and frontend has an address of its own, since the
	// kernel remembers.
	backend, frontend atomic.Uint32
}

func newNetwork(t testing.TB) *network {
	n := &network{
		node: topology.New(t, "node"), backends: topology.New(t, "backends"),
		clients: topology.New(t, "clients"), world: topology.New(t, "world"),
		journal: filepath.Join(t.TempDir(), "journal"),
	}
	for i, peer := range []*topology.Namespace{n.backends, n.clients, n.world} {
		own := []netip.Prefix{
			netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 31, byte(i + 1), 1}), 24),
			netip.PrefixFrom(v6(0xfd00, 0x31, uint16(i+1), 1), 64),
		}
		theirs := []netip.Prefix{
			netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 31, byte(i + 1), 2}), 24),
			netip.PrefixFrom(v6(0xfd00, 0x31, uint16(i+1), 2), 64),
		}
		topology.Connect(t, n.node, peer, own, theirs)
		for family, p := range [][2]netip.Prefix{serving, asking, outside}[i] {
			peer.Local(t, p)
			n.node.Route(t, p, theirs[family].Addr())
			peer.Route(t, netip.PrefixFrom(zero(own[family].Addr()), 0), own[family].Addr())
		}
	}
	return n
}

func v6(a, b, c, last uint16) netip.Addr {
	return netip.AddrFrom16([16]byte{byte(a >> 8), byte(a), byte(b >> 8), byte(b), byte(c >> 8), byte(c), 14: byte(last >> 8), 15: byte(last)})
}

func zero(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// nth returns an address of a range.
func nth(p netip.Prefix, n uint32) netip.Addr {
	b := p.Addr().AsSlice()
	b[len(b)-1], b[len(b)-2] = byte(n), b[len(b)-2]+byte(n>>8)
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

func family(v6 bool) int {
	if v6 {
		return 1
	}
	return 0
}

func (n *network) plane(t testing.TB) *kernel.Plane {
	t.Helper()
	p, err := ipvs.New(kernel.Options{
		Log: kittest.Logger(t), Journal: n.journal, ServiceCIDRs: virtual[:], Namespace: n.node.Path,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

func (n *network) sources() plan.Sources {
	return plan.Sources{Pods: pods[:], Node: []netip.Prefix{
		netip.PrefixFrom(nodeIPs[0], 32), netip.PrefixFrom(nodeIPs[1], 128),
	}}
}

func (n *network) freshFrontend(v6 bool) netip.AddrPort {
	return netip.AddrPortFrom(nth(virtual[family(v6)], 256+n.frontend.Add(1)), 80)
}

func (n *network) listen(t testing.TB, p plan.Protocol, v6 bool) (net.Listener, net.PacketConn) {
	t.Helper()
	at := netip.AddrPortFrom(nth(serving[family(v6)], 256+n.backend.Add(1)), 8080).String()
	var lis net.Listener
	var packet net.PacketConn
	err := n.backends.Do(func() (err error) {
		if p == plan.UDP {
			packet, err = net.ListenPacket("udp", at)
		} else {
			lis, err = net.Listen("tcp", at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lis, packet
}

func clientAddr(from dataplanetest.Vantage, n int, v6 bool) netip.Addr {
	switch from {
	case dataplanetest.Inside:
		return nth(asking[family(v6)], uint32(n+1))
	case dataplanetest.Outside:
		return nth(outside[family(v6)], uint32(n+1))
	}
	return nodeIPs[family(v6)]
}

func (n *network) dial(ctx context.Context, from dataplanetest.Vantage, client int, p plan.Protocol, to netip.AddrPort) (net.Conn, error) {
	at, local := n.node, zero(to.Addr())
	if from != dataplanetest.Node { // the node's own programs leave the choice to the kernel
		local = clientAddr(from, client, to.Addr().Is6())
		at = n.clients
	}
	if from == dataplanetest.Outside {
		at = n.world
	}
	source := netip.AddrPortFrom(local, sourcePort())
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(source)}
	network := "tcp"
	if p == plan.UDP {
		d.LocalAddr, network = net.UDPAddrFromAddrPort(source), "udp"
	}
	var conn net.Conn
	err := at.Do(func() (err error) {
		conn, err = d.DialContext(ctx, network, to.String())
		return err
	})
	return conn, err
}

// rig plays the scenarios of all planes.
type rig struct {
	*network
	under *kernel.Plane
}

func (r *rig) Plane() dataplane.Plane { return r.under }

func (r *rig) Traits() dataplanetest.Traits {
	return dataplanetest.Traits{SilentDrop: true, SCTP: true, CutsOnUse: true, IPv6: true}
}

func (r *rig) Sources() plan.Sources { return r.sources() }

func (r *rig) ClientAddr(from dataplanetest.Vantage, n int, v6 bool) netip.Addr {
	return clientAddr(from, n, v6)
}

func (r *rig) Frontend(_ testing.TB, _ plan.Protocol, v6 bool) netip.AddrPort {
	return r.freshFrontend(v6)
}

func (r *rig) Listen(t testing.TB, p plan.Protocol, v6 bool) (net.Listener, net.PacketConn) {
	return r.listen(t, p, v6)
}

func (r *rig) Dial(ctx context.Context, from dataplanetest.Vantage, n int, p plan.Protocol, to netip.AddrPort) (net.Conn, error) {
	return r.dial(ctx, from, n, p, to)
}

func TestConformance(t *testing.T) {
	kerneltest.Need(t)
	shared := newNetwork(t)
	under := shared.plane(t)
	dataplanetest.Run(t, func(*testing.T) dataplanetest.Rig { return &rig{shared, under} })
}

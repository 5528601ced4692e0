package netnstest

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/plan"
)

// The addresses of a network: IPv4, then IPv6.
var (
	// Virtual are the ranges of cluster IPs.
	Virtual = [2]netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}
	// external are the ranges of other virtual addresses.
	external = [2]netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("fd00:203::/64")}
	// Pods are the ranges of backends (serving) and client pods (asking).
	Pods    = [2]netip.Prefix{netip.MustParsePrefix("10.64.0.0/15"), netip.MustParsePrefix("fd00:64::/63")}
	serving = [2]netip.Prefix{netip.MustParsePrefix("10.64.0.0/16"), netip.MustParsePrefix("fd00:64::/64")}
	asking  = [2]netip.Prefix{netip.MustParsePrefix("10.65.0.0/16"), netip.MustParsePrefix("fd00:64:0:1::/64")}
	outside = [2]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")}
)

// ports counts the connections of the tests. Each gets a source port that was not used for long,
// below the range that the kernel chooses from.
var ports atomic.Uint32

func sourcePort() uint16 { return uint16(10000 + ports.Add(1)%20000) }

// Network is the network around one plane.
type Network struct {
	// Node is the plane's namespace. The others surround it.
	Node, Backends, Pods, Outside *topology.Namespace
	// Journal is the path of the plane's journal.
	Journal string
	// These count the addresses in use. Each backend and frontend has an address of its own,
	// because the kernel remembers flows.
	backend, frontend, nodePort, external atomic.Uint32
}

// NewNetwork makes a network that lasts until the end of the test.
func NewNetwork(t testing.TB) *Network { return Around(t, topology.New(t, "node")) }

// Around makes a network around a node.
func Around(t testing.TB, node *topology.Namespace) *Network {
	n := &Network{
		Node: node, Backends: topology.New(t, "backends"),
		Pods: topology.New(t, "pods"), Outside: topology.New(t, "outside"),
		Journal: filepath.Join(t.TempDir(), "journal"),
	}
	for i, peer := range []*topology.Namespace{n.Backends, n.Pods, n.Outside} {
		var own, theirs []netip.Prefix
		for _, v6 := range []bool{false, true} {
			at := nodeAddr(i, v6)
			bits := map[bool]int{false: 24, true: 64}[v6]
			own = append(own, netip.PrefixFrom(at, bits))
			theirs = append(theirs, netip.PrefixFrom(at.Next(), bits))
		}
		topology.Connect(t, n.Node, peer, own, theirs)
		for family, p := range [][2]netip.Prefix{serving, asking, outside}[i] {
			peer.Local(t, p)
			n.Node.Route(t, p, theirs[family].Addr())
			peer.Route(t, netip.PrefixFrom(unspecified(family == 1), 0), own[family].Addr())
		}
	}
	return n
}

// nodeAddr returns the node's address on its i-th device.
func nodeAddr(i int, v6 bool) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte{0xfd, 0, 0, 0x31, 0, byte(i + 1), 15: 1})
	}
	return netip.AddrFrom4([4]byte{172, 31, byte(i + 1), 1})
}

// NodeAddrs returns the node's addresses.
func (n *Network) NodeAddrs(v6 bool) []netip.Addr {
	return []netip.Addr{nodeAddr(0, v6), nodeAddr(1, v6), nodeAddr(2, v6)}
}

// Sources returns the ranges of pods and the addresses of the node.
func (n *Network) Sources() plan.Sources {
	s := plan.Sources{Pods: Pods[:]}
	for _, v6 := range []bool{false, true} {
		for _, a := range n.NodeAddrs(v6) {
			s.Node = append(s.Node, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return s
}

func unspecified(v6 bool) netip.Addr {
	if v6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// Nth returns the n-th address of a range.
func Nth(p netip.Prefix, n uint32) netip.Addr {
	b := p.Addr().AsSlice()
	b[len(b)-1], b[len(b)-2] = b[len(b)-1]+byte(n), b[len(b)-2]+byte(n>>8)
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

func family(v6 bool) int {
	if v6 {
		return 1
	}
	return 0
}

// Frontend returns an unused virtual address at port 80, or an unused node port.
func (n *Network) Frontend(_ testing.TB, e plan.Exposure, _ plan.Protocol, v6 bool) netip.AddrPort {
	switch e {
	case plan.NodePort:
		return netip.AddrPortFrom(nodeAddr(0, v6), uint16(30000+n.nodePort.Add(1)))
	case plan.ClusterIP:
		return netip.AddrPortFrom(Nth(Virtual[family(v6)], 256+n.frontend.Add(1)), 80)
	}
	return netip.AddrPortFrom(Nth(external[family(v6)], n.external.Add(1)), 80)
}

// Listen opens a socket for a backend at an unused address.
func (n *Network) Listen(t testing.TB, p plan.Protocol, v6 bool) (net.Listener, net.PacketConn) {
	t.Helper()
	at := netip.AddrPortFrom(Nth(serving[family(v6)], 256+n.backend.Add(1)), 8080)
	var lis net.Listener
	var packet net.PacketConn
	err := n.Backends.Do(func() (err error) {
		switch p {
		case plan.UDP:
			packet, err = net.ListenPacket("udp", at.String())
		case plan.SCTP:
			lis, err = listenSCTP(at)
		default:
			lis, err = dataplanetest.ListenTCP(at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lis, packet
}

// ListenNode opens a socket of the node on all of its addresses.
func (n *Network) ListenNode(t testing.TB, v6 bool) net.Listener {
	t.Helper()
	var lis net.Listener
	err := n.Node.Do(func() (err error) {
		lis, err = net.Listen("tcp", netip.AddrPortFrom(unspecified(v6), 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lis
}

// ClientAddr returns the address of the n-th client at a location.
func (n *Network) ClientAddr(from dataplanetest.ClientLocation, client int, v6 bool) netip.Addr {
	switch from {
	case dataplanetest.Inside:
		return Nth(asking[family(v6)], uint32(client+1))
	case dataplanetest.Outside:
		return Nth(outside[family(v6)], uint32(client+1))
	}
	return nodeAddr(0, v6)
}

// Dial connects from a location. The kernel chooses the source address of the node's own programs.
func (n *Network) Dial(ctx context.Context, from dataplanetest.ClientLocation, source netip.AddrPort, p plan.Protocol, to netip.AddrPort) (net.Conn, error) {
	if from == dataplanetest.Node {
		source = netip.AddrPortFrom(unspecified(to.Addr().Is6()), source.Port())
	}
	if source.Port() == 0 {
		source = netip.AddrPortFrom(source.Addr(), sourcePort())
	}
	var conn net.Conn
	err := n.place(from).Do(func() (err error) {
		conn, err = dial(ctx, source, p, to)
		return err
	})
	return conn, err
}

func (n *Network) place(from dataplanetest.ClientLocation) *topology.Namespace {
	switch from {
	case dataplanetest.Inside:
		return n.Pods
	case dataplanetest.Outside:
		return n.Outside
	case dataplanetest.Self:
		return n.Backends
	}
	return n.Node
}

func dial(ctx context.Context, source netip.AddrPort, p plan.Protocol, to netip.AddrPort) (net.Conn, error) {
	switch p {
	case plan.SCTP:
		return dialSCTP(source, to)
	case plan.UDP:
		d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(source)}
		return d.DialContext(ctx, "udp", to.String())
	}
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(source)}
	return d.DialContext(ctx, "tcp", to.String())
}

package handover

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// planes are the planes in the kernel.
var planes = map[string]func(kernel.Options) (*kernel.Plane, error){"ipvs": ipvs.New, "nftables": nftables.New}

// lan is a network with a client, a backend, and two nodes that both forward a virtual address.
type lan struct {
	t               *testing.T
	client, backend *topology.Namespace
	nodes           [2]*topology.Namespace
	tables          [2]*Table
	accepted        chan net.Conn // by the backend
}

// family are the addresses of one family on the network.
type family struct {
	client, backend, virtual netip.Prefix
	nodes                    [2]netip.Prefix
}

func familyOf(format string, bits int) family {
	at := func(host int) netip.Prefix {
		return netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf(format, host)), bits)
	}
	return family{client: at(1), backend: at(2), nodes: [2]netip.Prefix{at(11), at(12)}, virtual: at(100)}
}

var families = map[string]family{"IPv4": familyOf("192.0.2.%d", 24), "IPv6": familyOf("fd00:2::%d", 64)}

func newLAN(t *testing.T, open func(kernel.Options) (*kernel.Plane, error)) *lan {
	t.Helper()
	kerneltest.Need(t)
	l := &lan{t: t, client: topology.New(t, "client"), backend: topology.New(t, "backend"), accepted: make(chan net.Conn, 100)}
	network := topology.New(t, "lan")
	connect := func(ns *topology.Namespace, pick func(family) netip.Prefix) {
		topology.Connect(t, network, ns, nil, []netip.Prefix{pick(families["IPv4"]), pick(families["IPv6"])})
	}
	connect(l.client, func(f family) netip.Prefix { return f.client })
	connect(l.backend, func(f family) netip.Prefix { return f.backend })
	for i := range l.nodes {
		l.nodes[i] = topology.New(t, fmt.Sprint("node-", i))
		connect(l.nodes[i], func(f family) netip.Prefix { return f.nodes[i] })
	}
	network.Bridge(t, "bridge")
	l.listen()
	for i, ns := range l.nodes {
		l.forward(ns, open)
		l.tables[i] = openTable(t, ns)
	}
	return l
}

func openTable(t *testing.T, ns *topology.Namespace) *Table {
	t.Helper()
	table, err := Open(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	return table
}

// forward makes a node forward the virtual addresses to the backend.
func (l *lan) forward(ns *topology.Namespace, open func(kernel.Options) (*kernel.Plane, error)) {
	l.t.Helper()
	plane, err := open(kernel.Options{Log: kittest.Logger(l.t), Journal: filepath.Join(l.t.TempDir(), "journal"), Namespace: ns.Path, StrictARP: true})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := plane.Close(); err != nil {
			l.t.Error(err)
		}
	})
	for _, f := range families {
		at := func(p netip.Prefix, port uint16) netip.AddrPort { return netip.AddrPortFrom(p.Addr(), port) }
		server := netnstest.Server(at(f.virtual, 80), at(f.backend, 8080))
		server.Exposure = plan.LoadBalancerIP
		// Only the client may use the address, so the nodes themselves may not. They forward its packets.
		server.Restricted, server.Allowed = true, []netip.Prefix{netip.PrefixFrom(f.client.Addr(), f.client.Addr().BitLen())}
		netnstest.Program(l.t, plane, server)
	}
}

// listen accepts connections at the backend, and sends the address of the client over each.
func (l *lan) listen() {
	l.t.Helper()
	var lis net.Listener
	err := l.backend.Do(func() (err error) {
		lis, err = net.Listen("tcp", ":8080")
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			l.accepted <- conn
		}
	}()
}

// route makes the client send packets for the virtual addresses to a node.
func (l *lan) route(node int) {
	l.t.Helper()
	var hardware net.HardwareAddr
	err := l.nodes[node].Do(func() error {
		link, err := netlink.LinkByName("lan")
		if err == nil {
			hardware = link.Attrs().HardwareAddr
		}
		return err
	})
	if err == nil {
		err = l.client.Do(func() error {
			link, err := netlink.LinkByName("lan")
			for _, f := range families {
				err = errors.Join(err, netlink.NeighSet(&netlink.Neigh{
					LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: f.virtual.Addr().AsSlice(), HardwareAddr: hardware,
				}))
			}
			return err
		})
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// pair has the two ends of a connection through a node.
type pair struct {
	t               *testing.T
	client, backend *net.TCPConn
}

// open opens a connection, and checks that it goes through a node.
func (l *lan) open(f family, node int) *pair {
	l.t.Helper()
	p := &pair{t: l.t}
	err := l.client.Do(func() error {
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(f.virtual.Addr(), 80).String(), deadline)
		if err == nil {
			p.client = conn.(*net.TCPConn)
		}
		return err
	})
	if err != nil {
		l.t.Fatalf("through node %d: %v", node, err)
	}
	p.backend = (<-l.accepted).(*net.TCPConn)
	l.t.Cleanup(func() { _, _ = p.client.Close(), p.backend.Close() })
	// Both nodes masquerade the client with their own address.
	if from := netip.MustParseAddrPort(p.backend.RemoteAddr().String()).Addr().Unmap(); from != f.nodes[node].Addr() {
		l.t.Errorf("the connection arrives from %s, want node %d at %s", from, node, f.nodes[node].Addr())
	}
	p.talk()
	return p
}

// deadline has room for the retransmissions of a slow machine.
const deadline = 30 * time.Second

// talk sends lines both ways.
func (p *pair) talk() {
	p.t.Helper()
	long := strings.Repeat("x", 5000) + "\n" // several segments
	for range 3 {
		for from, to := range map[*net.TCPConn]*net.TCPConn{p.client: p.backend, p.backend: p.client} {
			if err := errors.Join(from.SetDeadline(time.Now().Add(deadline)), to.SetDeadline(time.Now().Add(deadline))); err != nil {
				p.t.Fatal(err)
			}
			if _, err := io.WriteString(from, long); err != nil {
				p.t.Fatal(err)
			}
			if got, err := bufio.NewReader(to).ReadString('\n'); err != nil || got != long {
				p.t.Fatalf("%d bytes arrived, %v", len(got), err)
			}
		}
	}
}

func (l *lan) handOver(f family) []machine.HandOver {
	return []machine.HandOver{{Address: f.virtual.Addr(), Via: f.nodes[0].Addr(), Left: time.Hour}}
}

func eachPlaneAndFamily(t *testing.T, test func(t *testing.T, l *lan, f family)) {
	kerneltest.Need(t)
	for mode, open := range planes {
		for name, f := range families {
			t.Run(mode+" "+name, func(t *testing.T) { test(t, newLAN(t, open), f) })
		}
	}
}

// TestConnectionsStay checks that connections through the previous node go on after the address has
// moved, in both directions and to their end, while new ones go through the next node.
func TestConnectionsStay(t *testing.T) {
	eachPlaneAndFamily(t, func(t *testing.T, l *lan, f family) {
		l.route(0)
		stays, ends, breaks := l.open(f, 0), l.open(f, 0), l.open(f, 0)
		if err := l.tables[1].Set(l.handOver(f)); err != nil {
			t.Fatal(err)
		}
		l.route(1)
		fresh := l.open(f, 1)
		stays.talk()
		fresh.talk()
		ends.talk()
		if err := ends.client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := ends.backend.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the end of a connection arrives as %v", err)
		}
		if err := errors.Join(breaks.client.SetLinger(0), breaks.client.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := breaks.backend.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the reset of a connection arrives as %v", err)
		}
		l.route(0) // back again: each node knows its own connections
		if err := errors.Join(l.tables[1].Set(nil), l.tables[0].Set([]machine.HandOver{{Address: f.virtual.Addr(), Via: f.nodes[1].Addr(), Left: time.Hour}})); err != nil {
			t.Fatal(err)
		}
		stays.talk()
		fresh.talk()
		l.open(f, 0)
	})
}

// TestLeftByAnEarlierAgent checks that the next agent finds the hand-overs, that they end by themselves, and
// that no table stays after them.
func TestLeftByAnEarlierAgent(t *testing.T) {
	kerneltest.Need(t)
	ns := topology.New(t, "node")
	v4, v6 := families["IPv4"], families["IPv6"]
	all := []machine.HandOver{
		{Address: v4.virtual.Addr(), Via: v4.nodes[0].Addr(), Left: time.Hour},
		{Address: v6.virtual.Addr(), Via: v6.nodes[0].Addr(), Left: 100 * time.Millisecond},
	}
	if err := openTable(t, ns).Set(all); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the end of a hand-over", func() error {
		table, err := Open(ns.Path)
		if err != nil {
			return err
		}
		defer table.Close() //nolint:errcheck // the test's own
		if len(table.have) != 1 || table.have[0].addr != v4.virtual.Addr() || time.Until(table.have[0].until) < time.Minute {
			return fmt.Errorf("%+v", table.have)
		}
		return nil
	})
	next := openTable(t, ns)
	if err := next.Set(nil); err != nil { // the table of IPv6 has no element any more
		t.Fatal(err)
	}
	expectTables(t, ns, 0)
	if err := next.Set(all[:1]); err != nil {
		t.Fatal(err)
	}
	expectTables(t, ns, 1)
	if nft := netnstest.FindNft(t); nft != nil {
		text, err := nft.List(ns)
		if err != nil || !strings.Contains(text, "ip daddr @addresses goto moved") {
			t.Errorf("nft lists %v, %s", err, text)
		}
		if err := nft.Inspect(ns); err != nil {
			t.Error(err)
		}
	}
	next.conn.FlushRuleset() // another program
	if err := errors.Join(next.conn.Flush(), next.Check()); err != nil {
		t.Fatal(err)
	}
	expectTables(t, ns, 1)
	if have, err := next.read(); err != nil || len(have) != 1 || !sameNode(have[0], next.have[0]) {
		t.Errorf("after the check: %+v, %v", have, err)
	}
}

// expectTables checks the number of tables in a namespace.
func expectTables(t *testing.T, ns *topology.Namespace, want int) {
	t.Helper()
	lines, err := netnstest.Inventory(ns)
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for line := range lines {
		if strings.HasPrefix(line, "table ") && strings.HasSuffix(line, tableName) {
			got++
		}
	}
	if got != want {
		t.Errorf("%d tables, want %d: %v", got, want, lines)
	}
}

// TestNoLoop checks that a segment of an unknown connection is dropped in the end even if two nodes have each
// other as the previous node.
func TestNoLoop(t *testing.T) {
	kerneltest.Need(t)
	l, f := newLAN(t, nftables.New), families["IPv4"]
	if err := errors.Join(l.tables[1].Set(l.handOver(f)),
		l.tables[0].Set([]machine.HandOver{{Address: f.virtual.Addr(), Via: f.nodes[1].Addr(), Left: time.Hour}})); err != nil {
		t.Fatal(err)
	}
	l.route(1)
	before := l.received(1)
	if err := l.client.Do(func() error { return sendSegment(f.client.Addr(), f.virtual.Addr()) }); err != nil {
		t.Fatal(err)
	}
	var last uint64
	kittest.Eventually(t, "the end of the segment", func() error {
		if now := l.received(1); now != last || now == before {
			last = now
			return fmt.Errorf("%d packets so far", now-before)
		}
		return nil
	})
	// The segment has a time to live of 64, and each node decrements it.
	if got := last - before; got < 2 || got > 100 {
		t.Errorf("the node has received %d packets", got)
	}
}

// received returns the number of packets that a node has received.
func (l *lan) received(node int) (packets uint64) {
	l.t.Helper()
	err := l.nodes[node].Do(func() error {
		link, err := netlink.LinkByName("lan")
		if err == nil {
			packets = link.Attrs().Statistics.RxPackets
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return packets
}

// sendSegment sends a TCP segment with the flag ACK that belongs to no connection.
func sendSegment(from, to netip.Addr) error {
	const ack = 0x10
	segment := make([]byte, 20)
	copy(segment, []byte{0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 5 << 4, ack, 1, 0})
	sum := uint32(6 + len(segment))
	for _, part := range [][]byte{from.AsSlice(), to.AsSlice(), segment} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(part[i])<<8 | uint32(part[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	segment[16], segment[17] = byte(^sum>>8), byte(^sum)
	conn, err := net.DialIP("ip4:tcp", &net.IPAddr{IP: from.AsSlice()}, &net.IPAddr{IP: to.AsSlice()})
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing follows
	_, err = conn.Write(segment)
	return err
}

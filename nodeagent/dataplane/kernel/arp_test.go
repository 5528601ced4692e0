package kernel_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// lan is a network with a client and two nodes that run planes.
type lan struct {
	t      *testing.T
	client *topology.Namespace
	nodes  [2]*topology.Namespace
}

// The addresses of a lan.
var (
	clientAddrs = prefixes("192.0.2.1/24", "192.0.2.2/24", "fd00:2::1/64")
	nodeAddrs   = [2][]netip.Prefix{prefixes("192.0.2.11/24", "fd00:2::11/64"), prefixes("192.0.2.12/24", "fd00:2::12/64")}
	virtual     = []netip.AddrPort{
		netip.MustParseAddrPort("192.0.2.100:80"), netip.MustParseAddrPort("10.96.0.9:80"),
		netip.MustParseAddrPort("[fd00:2::100]:80"), netip.MustParseAddrPort("[fd00:96::9]:80"),
	}
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func newLAN(t *testing.T) *lan {
	t.Helper()
	kerneltest.Need(t)
	l := &lan{t: t, client: topology.New(t, "client")}
	network := topology.New(t, "lan")
	for i := range l.nodes {
		l.nodes[i] = topology.New(t, fmt.Sprint("node-", i))
		topology.Connect(t, network, l.nodes[i], nil, nodeAddrs[i])
	}
	topology.Connect(t, network, l.client, nil, clientAddrs)
	network.Bridge(t, "bridge")
	for _, p := range ranges {
		l.client.OnLink(t, "lan", p)
	}
	for _, family := range []string{"ipv4", "ipv6"} { // unused addresses fail soon
		l.client.Sysctl(t, "net."+family+".neigh.lan.retrans_time_ms", "100")
	}
	return l
}

// serve makes the planes of all nodes serve all virtual addresses.
func (l *lan) serve(strict bool) {
	l.t.Helper()
	for _, ns := range l.nodes {
		p, _ := planeIn(l.t, ns, kernel.Options{Journal: filepath.Join(l.t.TempDir(), "journal"), StrictARP: strict})
		for _, at := range virtual {
			v := &plan.VirtualServer{Key: plan.Key{Frontend: plan.Frontend{Addr: at, Protocol: plan.TCP}}}
			v.Scheduler, v.Exposure = plan.RoundRobin, plan.ExternalIP
			if failed := p.Apply(l.t.Context(), dataplanetest.Changes(v)); len(failed) > 0 {
				l.t.Fatal(failed)
			}
		}
	}
}

// send sends a datagram to an address.
func send(from, to netip.Addr) error {
	local := net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	conn, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("hello"))
	return err
}

// neighbour returns the client's neighbour entry for an address, or nil.
func (l *lan) neighbour(addr netip.Addr) (found *netlink.Neigh, err error) {
	err = l.client.Do(func() error {
		list, err := netlink.NeighList(0, netlink.FAMILY_ALL)
		for i := range list {
			if a, _ := netip.AddrFromSlice(list[i].IP); a.Unmap() == addr {
				found = &list[i]
			}
		}
		return err
	})
	return found, err
}

// answered reports whether a node answers for an address on the network.
func (l *lan) answered(addr netip.Addr) (yes bool) {
	l.t.Helper()
	unspecified := netip.IPv4Unspecified()
	if addr.Is6() {
		unspecified = netip.IPv6Unspecified()
	}
	kittest.Eventually(l.t, "the neighbour "+addr.String(), func() error {
		n, err := l.neighbour(addr)
		switch {
		case err != nil:
			return err
		case n != nil && n.State == netlink.NUD_FAILED:
			yes = false
			return nil
		case n != nil && n.HardwareAddr != nil:
			yes = true
			return nil
		}
		l.client.Do(func() error { return send(unspecified, addr) }) //nolint:errcheck // no node has the address
		return errors.New("neither found nor given up")
	})
	return yes
}

// TestNodesDoNotAnswerForVirtualAddresses checks that no node answers ARP requests for a virtual
// address.
func TestNodesDoNotAnswerForVirtualAddresses(t *testing.T) {
	l := newLAN(t)
	l.serve(true)
	for _, at := range virtual {
		if l.answered(at.Addr()) {
			t.Errorf("a node answers for %s", at.Addr())
		}
	}
	for _, own := range nodeAddrs {
		for _, p := range own {
			if !l.answered(p.Addr()) {
				t.Errorf("the node does not answer for %s, which is its own", p.Addr())
			}
		}
	}
}

// TestNodesDoNotAnnounceVirtualAddresses checks that a node that sends a packet from a virtual
// address does not use that address in its ARP request for the neighbour.
func TestNodesDoNotAnnounceVirtualAddresses(t *testing.T) {
	l := newLAN(t)
	l.serve(true)
	vip, to := virtual[0].Addr(), clientAddrs[1].Addr()
	var arrived net.PacketConn
	err := l.client.Do(func() (err error) {
		arrived, err = net.ListenPacket("udp", netip.AddrPortFrom(to, 9).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer arrived.Close()
	if err := l.nodes[0].Do(func() error { return send(vip, to) }); err != nil {
		t.Fatal(err)
	}
	if _, from, err := arrived.ReadFrom(make([]byte, 100)); err != nil || !strings.HasPrefix(from.String(), vip.String()) {
		t.Fatalf("a packet from %v, %v", from, err)
	}
	if n, err := l.neighbour(vip); err != nil || n != nil && n.HardwareAddr != nil {
		t.Errorf("the client takes %v for the owner of %s, %v", n, vip, err)
	}
}

// sysctl reads a setting of a namespace.
func sysctl(t *testing.T, ns *topology.Namespace, name string) string {
	t.Helper()
	var text []byte
	err := ns.Do(func() (err error) {
		text, err = os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

const (
	arpIgnore   = "net.ipv4.conf.all.arp_ignore"
	arpAnnounce = "net.ipv4.conf.all.arp_announce"
)

// TestSettingsAreWatchedAndPutBack checks that an audit restores settings that another program has
// changed, and that the ARP settings are restored when the plane is removed, also by a later
// process.
func TestSettingsAreWatchedAndPutBack(t *testing.T) {
	kerneltest.Need(t)
	ns, o := topology.New(t, "node"), kernel.Options{Journal: filepath.Join(t.TempDir(), "journal"), StrictARP: true}
	ns.Sysctl(t, arpAnnounce, "1")
	p, _ := planeIn(t, ns, o)
	want := func(when, ignore, announce string) {
		t.Helper()
		if i, a := sysctl(t, ns, arpIgnore), sysctl(t, ns, arpAnnounce); i != ignore || a != announce {
			t.Errorf("%s: arp_ignore %s, arp_announce %s; want %s, %s", when, i, a, ignore, announce)
		}
	}
	want("at first", "1", "2")
	ns.Sysctl(t, arpIgnore, "0")
	ns.Sysctl(t, "net.ipv4.ip_forward", "0")
	if _, err := p.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("after an audit", "1", "2")
	if got := sysctl(t, ns, "net.ipv4.ip_forward"); got != "1" {
		t.Errorf("ip_forward is %s after an audit", got)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	want("without a process", "1", "2")
	p, _ = planeIn(t, ns, o)
	if err := p.Cleanup(); err != nil {
		t.Fatal(err)
	}
	want("after the cleanup", "0", "1")
}

// TestSettingsOfOthersStay checks that stricter settings stay, and settings that another program
// has changed.
func TestSettingsOfOthersStay(t *testing.T) {
	kerneltest.Need(t)
	ns := topology.New(t, "node")
	ns.Sysctl(t, arpIgnore, "2")
	p, _ := planeIn(t, ns, kernel.Options{Journal: filepath.Join(t.TempDir(), "journal"), StrictARP: true})
	if got := sysctl(t, ns, arpIgnore); got != "2" {
		t.Errorf("arp_ignore was made %s", got)
	}
	ns.Sysctl(t, arpAnnounce, "1")
	if err := p.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if i, a := sysctl(t, ns, arpIgnore), sysctl(t, ns, arpAnnounce); i != "2" || a != "1" {
		t.Errorf("after the cleanup: arp_ignore %s, arp_announce %s", i, a)
	}
}

// TestSettingsAreHandedOver checks that a plane restores the settings from before the plane that it
// replaced.
func TestSettingsAreHandedOver(t *testing.T) {
	kerneltest.Need(t)
	ns, dir := topology.New(t, "node"), t.TempDir()
	first := kernel.Options{Journal: filepath.Join(dir, "first"), StrictARP: true, Namespace: ns.Path}
	p, b := planeIn(t, ns, first)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := kernel.OpenPredecessor(first, func() (kernel.Balancer, error) { return b, nil })
	if err != nil {
		t.Fatal(err)
	}
	next, _ := planeIn(t, ns, kernel.Options{Journal: filepath.Join(dir, "next"), StrictARP: true, OriginalSettings: before.OriginalSettings()})
	if err := errors.Join(before.Remove(), before.Close()); err != nil {
		t.Fatal(err)
	}
	if got := sysctl(t, ns, arpIgnore); got != "1" {
		t.Errorf("arp_ignore is %s once the first plane has left", got)
	}
	if err := next.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if got := sysctl(t, ns, arpIgnore); got != "0" {
		t.Errorf("arp_ignore is %s after the cleanup", got)
	}
}

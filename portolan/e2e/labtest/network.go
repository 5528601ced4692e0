package labtest

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/kerneltest/topology"
)

// The ranges of an installation, first IPv4, then IPv6.
var (
	Services = [2]netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}
	Pods     = [2]netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:244::/48")}
	// Balanced are the addresses of load balancers.
	Balanced = [2]netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("fd00:203::/112")}
	// External are external IPs.
	External = [2]netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("fd00:198::/112")}
	outside  = [2]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")}
)

// control holds the addresses of the control plane.
var control = [2]netip.Addr{netip.MustParseAddr("172.31.0.1"), netip.MustParseAddr("fd00:31::1")}

// Network is the hub with the namespaces around it.
type Network struct {
	t     testing.TB
	Hub   *topology.Namespace
	links int
}

// NewNetwork makes the hub in the namespace of the process.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	n := &Network{t: t, Hub: topology.Own(t, "hub")}
	n.Hub.Link(t, "lo", nil)
	forward(t, n.Hub)
	n.must(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, a := range control {
			addr := &netlink.Addr{IPNet: network(netip.PrefixFrom(a, a.BitLen()))}
			if err := netlink.AddrReplace(lo, addr); err != nil {
				return err
			}
		}
		return nil
	})
	return n
}

func (n *Network) must(fn func() error) {
	n.t.Helper()
	if err := n.Hub.Do(fn); err != nil {
		n.t.Fatalf("hub: %v", err)
	}
}

// forward makes a namespace a router.
func forward(t testing.TB, in *topology.Namespace) {
	t.Helper()
	in.Sysctl(t, "net.ipv4.ip_forward", "1")
	in.Sysctl(t, "net.ipv6.conf.all.forwarding", "1")
}

// Attach makes a namespace beside the hub, to which the hub routes these ranges. It returns the
// namespace's own addresses.
func (n *Network) Attach(name string, ranges ...netip.Prefix) (*topology.Namespace, [2]netip.Addr) {
	n.t.Helper()
	n.links++
	peer := topology.New(n.t, name)
	hub := [2]netip.Addr{
		netip.AddrFrom4([4]byte{172, 31, byte(n.links), 1}),
		netip.AddrFrom16([16]byte{0: 0xfd, 3: 0x31, 7: byte(n.links), 15: 1}),
	}
	own := [2]netip.Addr{hub[0].Next(), hub[1].Next()}
	var hubs, owns []netip.Prefix
	for family, bits := range [2]int{24, 64} {
		hubs = append(hubs, netip.PrefixFrom(hub[family], bits))
		owns = append(owns, netip.PrefixFrom(own[family], bits))
	}
	topology.Connect(n.t, n.Hub, peer, hubs, owns)
	for family, all := range [2]string{"0.0.0.0/0", "::/0"} {
		peer.Route(n.t, netip.MustParsePrefix(all), hub[family])
	}
	for _, p := range ranges {
		n.Via(p, own)
	}
	return peer, own
}

// Via makes the hub route a range to the namespace with these addresses, and no longer to another
// one.
func (n *Network) Via(p netip.Prefix, gateway [2]netip.Addr) {
	n.t.Helper()
	via := gateway[0]
	if p.Addr().Is6() {
		via = gateway[1]
	}
	n.must(func() error { return netlink.RouteReplace(&netlink.Route{Dst: network(p), Gw: via.AsSlice()}) })
}

// Plug connects a pod to its node's namespace by a pair of devices until the test ends. All packets
// of the pod go through the node, also those to pods on the same node. name is the name of the
// pod's namespace.
func Plug(t testing.TB, node, pod *topology.Namespace, name string, addrs [2]netip.Addr) {
	t.Helper()
	topology.Connect(t, node, pod, nil, nil)
	gateways := [2]netip.Addr{netip.MustParseAddr("169.254.1.1"), netip.MustParseAddr("fe80::1")}
	for family, addr := range addrs {
		if !addr.IsValid() {
			continue
		}
		gateway := gateways[family]
		if err := node.Do(func() error { return point(name, gateway, addr, false) }); err != nil {
			t.Fatalf("pod %s: %v", name, err)
		}
		if err := pod.Do(func() error { return point("", addr, gateway, true) }); err != nil {
			t.Fatalf("pod %s: %v", name, err)
		}
	}
}

// point gives a device an address and a route to the address at its other end. A pod's device also
// gets the default route.
func point(device string, own, peer netip.Addr, pod bool) error {
	link, err := find(device)
	if err != nil {
		return err
	}
	bits := own.BitLen()
	if own.Is6() && own.IsLinkLocalUnicast() {
		bits = 64
	}
	address := &netlink.Addr{IPNet: network(netip.PrefixFrom(own, bits)), Flags: unix.IFA_F_NODAD}
	if err := netlink.AddrReplace(link, address); err != nil {
		return fmt.Errorf("address %s: %w", own, err)
	}
	to := &netlink.Route{Dst: network(netip.PrefixFrom(peer, peer.BitLen())), LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteReplace(to); err != nil {
		return fmt.Errorf("route to %s: %w", peer, err)
	}
	if !pod {
		return nil
	}
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if own.Is6() {
		all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	route := &netlink.Route{Dst: network(all), Gw: peer.AsSlice(), LinkIndex: link.Attrs().Index, Flags: int(netlink.FLAG_ONLINK)}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("default route: %w", err)
	}
	return nil
}

// find returns a device. Without a name it returns the only one besides lo.
func find(device string) (netlink.Link, error) {
	if device != "" {
		return netlink.LinkByName(device)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		if link.Type() == "veth" {
			return link, nil
		}
	}
	return nil, fmt.Errorf("no device among %d", len(links))
}

func network(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// ReverseZones returns the reverse zones of the services' addresses.
func ReverseZones() []string {
	var zones []string
	for _, p := range Services {
		name, err := dns.ReverseAddr(p.Addr().String())
		if err != nil {
			panic(err) // the range is a constant
		}
		perLabel := 8
		if p.Addr().Is6() {
			perLabel = 4
		}
		labels := dns.SplitDomainName(name)
		host := (p.Addr().BitLen() - p.Bits()) / perLabel
		zones = append(zones, dns.Fqdn(strings.Join(labels[host:], ".")))
	}
	return zones
}

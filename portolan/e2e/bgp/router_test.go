package bgp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
)

const (
	nodesAS   = 64512
	routersAS = 64513
)

// router is BIRD in a namespace of its own.
type router struct {
	t       *testing.T
	in      *topology.Namespace
	control string // path of BIRD's socket
	client  string // path of birdc
}

// find returns the path of a program of the package bird2.
func find(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, filepath.Join("/usr/sbin", name)} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	if os.Getenv("PORTOLAN_REQUIRE_REAL") == "1" {
		t.Fatalf("%s is not installed: tools/test-tools.sh installs it", name)
	}
	t.Skipf("%s is not installed: tools/test-tools.sh installs it", name)
	return ""
}

// startRouter starts BIRD with a session to each node, on the network. perPeer is added to the
// configuration of each session.
func startRouter(t *testing.T, in *topology.Namespace, nodes int, perPeer string) *router {
	t.Helper()
	dir := t.TempDir()
	r := &router{t: t, in: in, control: filepath.Join(dir, "ctl"), client: find(t, "birdc")}
	var text strings.Builder
	text.WriteString("router id 192.168.88.100;\nprotocol device { scan time 1; }\nprotocol bfd { interface \"*\" { interval 300 ms; multiplier 3; }; }\n")
	for family, channel := range [2]string{"ipv4", "ipv6"} {
		fmt.Fprintf(&text, "protocol kernel { merge paths on; %s { import none; export all; }; }\n", channel)
		for n := range nodes {
			fmt.Fprintf(&text, `protocol bgp n%d_%s {
	local %s as %d;
	neighbor %s as %d;
	%s { import all; export none; };
	passive on;
	%s
}
`, n+1, channel, onLAN(100)[family].Addr(), routersAS, onLAN(n + 1)[family].Addr(), nodesAS, channel, perPeer)
		}
	}
	config := filepath.Join(dir, "bird.conf")
	if err := os.WriteFile(config, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(find(t, "bird"), "-f", "-c", config, "-s", r.control, "-P", filepath.Join(dir, "pid"))
	cmd.Dir = dir
	labtest.Run(t, "bird", cmd, in)
	kittest.Eventually(t, "bird", func() error {
		_, err := r.ask("show", "status")
		return err
	})
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := r.ask("show", "protocols", "all")
			t.Log(said)
		}
	})
	return r
}

// ask returns BIRD's answer to a command.
func (r *router) ask(command ...string) (string, error) {
	out, err := exec.Command(r.client, append([]string{"-r", "-s", r.control}, command...)...).CombinedOutput()
	return string(out), err
}

// hops returns the nodes through which the kernel forwards to an address, by their numbers.
func (r *router) hops(addr netip.Addr) (nodes []int) {
	r.t.Helper()
	family := netlink.FAMILY_V4
	if addr.Is6() {
		family = netlink.FAMILY_V6
	}
	to := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}
	err := r.in.Do(func() error {
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Dst: to}, netlink.RT_FILTER_DST)
		if err != nil {
			return err
		}
		for _, route := range routes {
			nodes = append(nodes, through(&route)...)
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(nodes)
	return nodes
}

// number returns the number of the node with an address on the LAN.
func number(gateway net.IP) int { return int(gateway[len(gateway)-1]) }

// await waits until the kernel forwards to an address through exactly these nodes.
func (r *router) await(addr netip.Addr, nodes ...int) {
	r.t.Helper()
	kittest.Eventually(r.t, fmt.Sprintf("the routes to %s through %v", addr, nodes), func() error {
		if got := r.hops(addr); !slices.Equal(got, nodes) {
			return fmt.Errorf("through %v", got)
		}
		return nil
	})
}

// watch follows the changes of the kernel's routes to single addresses until stop is called, which
// returns the sets of nodes that each address had, from the first change on.
func (r *router) watch() (stop func() map[netip.Addr][][]int) {
	r.t.Helper()
	updates, done := make(chan netlink.RouteUpdate, 1000), make(chan struct{})
	if err := r.in.Do(func() error { return netlink.RouteSubscribe(updates, done) }); err != nil {
		r.t.Fatal(err)
	}
	seen := map[netip.Addr][][]int{}
	var running sync.WaitGroup
	running.Go(func() {
		for u := range updates {
			if u.Dst == nil {
				continue
			}
			addr, _ := netip.AddrFromSlice(u.Dst.IP)
			if ones, bits := u.Dst.Mask.Size(); ones != bits || u.Table != unix.RT_TABLE_MAIN {
				continue
			}
			var nodes []int
			if u.Type == unix.RTM_NEWROUTE {
				nodes = through(&u.Route)
			}
			seen[addr.Unmap()] = append(seen[addr.Unmap()], nodes)
		}
	})
	return func() map[netip.Addr][][]int {
		close(done)
		running.Wait()
		return seen
	}
}

// through returns the nodes that a route goes through, ordered.
func through(route *netlink.Route) (nodes []int) {
	if len(route.Gw) > 0 {
		nodes = append(nodes, number(route.Gw))
	}
	for _, hop := range route.MultiPath {
		nodes = append(nodes, number(hop.Gw))
	}
	slices.Sort(nodes)
	return nodes
}

// onLAN returns the addresses of a host on the network of the nodes and the router.
func onLAN(host int) [2]netip.Prefix {
	return [2]netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 88, byte(host)}), 24),
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x88, 15: byte(host)}), 64),
	}
}

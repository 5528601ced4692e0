package topology

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace with lo up.
type Namespace struct {
	// Path is a file that opens the namespace and lives until the end of the test. It is empty for
	// the namespace of the process.
	Path string
	name string
	file *os.File
}

// New makes a namespace.
func New(t testing.TB, name string) *Namespace {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread must end in its namespace
		result <- create(path)
	}()
	if err := <-result; err != nil {
		t.Fatalf("namespace %s: %v", name, err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	n := &Namespace{Path: path, name: name, file: file}
	t.Cleanup(func() {
		file.Close()
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Errorf("namespace %s: %v", name, err)
		}
	})
	n.Link(t, "lo", nil)
	n.Sysctl(t, "net.ipv4.icmp_ratelimit", "0") // tests cause more refusals than the default limit allows
	n.Sysctl(t, "net.ipv6.icmp.ratelimit", "0")
	return n
}

// Own returns the namespace of the test process.
func Own(t testing.TB, name string) *Namespace {
	t.Helper()
	// Not /proc/self, which is the main thread and may be in another namespace.
	file, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &Namespace{name: name, file: file}
}

func create(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
}

// Do runs fn in the namespace. Sockets that fn opens stay in it.
func (n *Namespace) Do(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("namespace %s: %w", n.name, err)
			return
		}
		result <- fn()
	}()
	return <-result
}

func (n *Namespace) must(t testing.TB, fn func() error) {
	t.Helper()
	if err := n.Do(fn); err != nil {
		t.Fatalf("namespace %s: %v", n.name, err)
	}
}

// Sysctl sets a kernel parameter.
func (n *Namespace) Sysctl(t testing.TB, name, value string) {
	t.Helper()
	n.must(t, func() error {
		return os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0)
	})
}

// Link sets a device up and adds addresses to it.
func (n *Namespace) Link(t testing.TB, device string, addrs []netip.Prefix) {
	t.Helper()
	n.must(t, func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
		for _, a := range addrs {
			addr := &netlink.Addr{IPNet: ipNet(a), Flags: unix.IFA_F_NODAD} // no duplicate detection: usable at once
			if err := netlink.AddrAdd(link, addr); err != nil {
				return fmt.Errorf("%s on %s: %w", a, device, err)
			}
		}
		return nil
	})
}

// Down sets a device down.
func (n *Namespace) Down(t testing.TB, device string) {
	t.Helper()
	n.must(t, func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(link)
	})
}

// Route adds a route to a prefix through a gateway.
func (n *Namespace) Route(t testing.TB, to netip.Prefix, via netip.Addr) {
	t.Helper()
	n.must(t, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet(to), Gw: via.AsSlice()})
	})
}

// OnLink adds a route to a prefix that is directly reachable through a device.
func (n *Namespace) OnLink(t testing.TB, device string, to netip.Prefix) {
	t.Helper()
	n.must(t, func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet(to), LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK})
	})
}

// Bridge joins the devices that Connect has made in the namespace.
func (n *Namespace) Bridge(t testing.TB, name string) {
	t.Helper()
	n.must(t, func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		for _, l := range links {
			if l.Type() != "veth" {
				continue
			}
			if err := netlink.LinkSetMaster(l, bridge); err != nil {
				return fmt.Errorf("%s into %s: %w", l.Attrs().Name, name, err)
			}
		}
		return netlink.LinkSetUp(bridge)
	})
}

// Local makes all addresses of a prefix local to the namespace.
func (n *Namespace) Local(t testing.TB, p netip.Prefix) {
	t.Helper()
	if p.Addr().Is6() { // a route alone does not allow listening
		n.Sysctl(t, "net.ipv6.ip_nonlocal_bind", "1")
	}
	n.must(t, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		r := &netlink.Route{Dst: ipNet(p), LinkIndex: lo.Attrs().Index, Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}
		if p.Addr().Is4() {
			r.Scope = netlink.SCOPE_HOST
		}
		return netlink.RouteAdd(r)
	})
}

// Connect joins two namespaces by a pair of devices with the given addresses. Each device is named
// after the other end.
func Connect(t testing.TB, a, b *Namespace, addrsA, addrsB []netip.Prefix) {
	t.Helper()
	a.must(t, func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: b.name}, PeerName: a.name, PeerNamespace: netlink.NsFd(b.file.Fd()),
		})
	})
	t.Cleanup(func() { // needed for namespaces that outlive the test: the process's own, and those with open sockets
		err := a.Do(func() error {
			link, err := netlink.LinkByName(b.name)
			if err != nil {
				return err
			}
			return netlink.LinkDel(link)
		})
		if err != nil {
			t.Errorf("device %s of %s: %v", b.name, a.name, err)
		}
	})
	a.Link(t, b.name, addrsA)
	b.Link(t, a.name, addrsB)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

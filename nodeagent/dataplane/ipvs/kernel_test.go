package ipvs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// patience is the timeout for events on a slow machine.
const patience = 60 * time.Second

// echo starts a backend that answers each line with the client's address as the backend sees it. It
// returns the backend's address.
func echo(t testing.TB, n *netnstest.Network) netip.AddrPort {
	t.Helper()
	lis, _ := n.Listen(t, plan.TCP, false)
	serve(t, lis)
	return lis.Addr().(*net.TCPAddr).AddrPort()
}

func serve(t testing.TB, lis net.Listener) {
	t.Cleanup(func() { lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintln(conn, conn.RemoteAddr())
				}
			}()
		}
	}()
}

// conversation is a connection to an echo backend.
type conversation struct {
	net.Conn
	lines *bufio.Scanner
}

func talk(t testing.TB, n *netnstest.Network, from dataplanetest.ClientLocation, to netip.AddrPort) (*conversation, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := n.Dial(ctx, from, netip.AddrPortFrom(n.ClientAddr(from, 0, to.Addr().Is6()), 0), plan.TCP, to)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { conn.Close() })
	return &conversation{conn, bufio.NewScanner(conn)}, nil
}

// ask returns the client's address as the backend sees it.
func (c *conversation) ask() (netip.Addr, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return netip.Addr{}, err
	}
	if _, err := fmt.Fprintln(c, "who"); err != nil {
		return netip.Addr{}, err
	}
	if !c.lines.Scan() {
		return netip.Addr{}, errors.Join(errors.New("no answer"), c.lines.Err())
	}
	seen, err := netip.ParseAddrPort(c.lines.Text())
	return seen.Addr(), err
}

// seen connects once and returns the client's address as the backend sees it.
func seen(t testing.TB, n *netnstest.Network, from dataplanetest.ClientLocation, to netip.AddrPort) (netip.Addr, error) {
	c, err := talk(t, n, from, to)
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.ask()
}

// TestMissingScheduler checks that a scheduler that the kernel lacks is reported and replaced by
// rr.
func TestMissingScheduler(t *testing.T) {
	n, p := start(t)
	for module, scheduler := range map[string]plan.Scheduler{"ip_vs_mh": plan.Maglev, "ip_vs_fo": plan.DestinationHash} {
		kerneltest.WithoutModules(t, module)
		v := netnstest.Server(fresh(t, n), echo(t, n))
		v.Scheduler = scheduler
		failures := p.Apply(t.Context(), dataplanetest.Changes(v))
		if len(failures) != 1 || !errors.Is(failures[0].Err, dataplane.ErrNotSupported) || !strings.Contains(failures[0].Remedy, module) {
			t.Errorf("failures %+v", failures)
		}
		if _, err := seen(t, n, dataplanetest.Inside, v.Addr); err != nil {
			t.Error(err)
		}
	}
}

// TestDrift checks that changes made by other programs are found and reverted.
func TestDrift(t *testing.T) {
	n, p := start(t)
	one, two := echo(t, n), echo(t, n)
	v, lost := netnstest.Server(fresh(t, n), one, two), netnstest.Server(fresh(t, n), one)
	netnstest.Program(t, p, v, lost)
	want := netnstest.State(t, p)
	vandal, err := open(n.Node.Path, n.Journal, kittest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	heavy := *v
	heavy.Reals = slices.Clone(v.Reals)
	heavy.Reals[slices.IndexFunc(heavy.Reals, func(r plan.RealServer) bool { return r.Addr == one })].Weight = 9
	netnstest.Program(t, vandal, &heavy)
	if err := vandal.Cleanup(); err != nil { // removes rules and routes too
		t.Fatal(err)
	}
	if err := vandal.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := seen(t, n, dataplanetest.Inside, v.Addr); err == nil {
		t.Fatal("it still serves: nothing was broken")
	}
	changed := plan.Changed(netnstest.State(t, p), want)
	if len(changed.Frontends) != 2 {
		t.Errorf("the audit finds %v", changed)
	}
	netnstest.Apply(t, p, changed)
	for _, server := range []*plan.VirtualServer{v, lost} {
		for _, from := range []dataplanetest.ClientLocation{dataplanetest.Inside, dataplanetest.Outside, dataplanetest.Node} {
			if _, err := seen(t, n, from, server.Addr); err != nil {
				t.Errorf("%s from %s: %v", server.Addr, from, err)
			}
		}
	}
	if steps := plan.Diff(netnstest.State(t, p), want); len(steps) > 0 {
		t.Errorf("still different: %v", steps)
	}
}

// TestManyServersAndOneError checks that adding many servers takes many messages, and that an error
// is matched to its message.
func TestManyServersAndOneError(t *testing.T) {
	n, p := start(t)
	foreign := netnstest.Server(nthFrontend(700))
	if err := newFloor(t, n.Node.Path, []*plan.VirtualServer{foreign}, 1).send(); err != nil {
		t.Fatal(err)
	}
	var servers []*plan.VirtualServer
	for i := range uint32(1000) {
		servers = append(servers, netnstest.Server(nthFrontend(i), netip.AddrPortFrom(netnstest.Nth(netnstest.Pods[0], i), 80)))
	}
	failures := p.Apply(t.Context(), dataplanetest.Changes(servers...))
	if len(failures) != 1 || failures[0].Frontend != foreign.Frontend {
		t.Errorf("%d failures: %+v", len(failures), failures)
	}
	if s := netnstest.State(t, p); len(s.Servers) != 999 {
		t.Errorf("%d servers in the kernel", len(s.Servers))
	}
	if err := p.Cleanup(); err != nil {
		t.Fatal(err)
	}
	// The header of the list has an arrow too. No backend of ours may be left.
	if list := table(t, n); strings.Count(list, "TCP ") != 1 || strings.Count(list, "->") != 1 {
		t.Errorf("left: %s, want the foreign server as it was", list)
	}
}

// fresh returns a frontend that was not used before.
func fresh(t testing.TB, n *netnstest.Network) netip.AddrPort {
	return n.Frontend(t, plan.ClusterIP, plan.TCP, false)
}

func nthFrontend(i uint32) netip.AddrPort {
	return netip.AddrPortFrom(netnstest.Nth(netnstest.Virtual[0], 256+i), 80)
}

func TestProbe(t *testing.T) {
	n, _ := start(t)
	if err := ipvs.Probe(n.Node.Path); err != nil {
		t.Error(err)
	}
	if left := ipvsadm(t, n, "-Sn"); left != "" {
		t.Errorf("the probe has left %s", left)
	}
	if err := ipvs.Probe("/nowhere"); err == nil {
		t.Error("a namespace that is not there has IPVS")
	}
	kerneltest.WithoutModules(t, "ip_vs_rr")
	if err := ipvs.Probe(n.Node.Path); !errors.Is(err, unix.ENOENT) {
		t.Errorf("without the scheduler rr the result is %v", err)
	}
}

// TestStartLeavesForeignServersAlone checks that servers of another program are the same after an agent has
// started, wherever they are: at the addresses of this probe and of earlier ones, and with the probe's settings.
func TestStartLeavesForeignServersAlone(t *testing.T) {
	kerneltest.Need(t)
	n := netnstest.NewNetwork(t)
	for _, at := range []string{"198.51.100.0:20000", "[2001:db8::]:20000"} {
		ipvsadm(t, n, "-A", "-t", at, "-s", "rr")
	}
	ipvsadm(t, n, "-a", "-t", "198.51.100.0:20000", "-r", "198.51.100.9:80", "-m")
	before := ipvsadm(t, n, "-Sn")
	for range 2 {
		if err := ipvs.Probe(n.Node.Path); err != nil {
			t.Error(err)
		}
		if err := openPlane(t, n).Close(); err != nil {
			t.Error(err)
		}
	}
	if now := ipvsadm(t, n, "-Sn"); now != before {
		t.Errorf("the kernel has\n%s\nand had\n%s", now, before)
	}
}

// table returns the kernel's own list of virtual servers.
func table(t testing.TB, n *netnstest.Network) string {
	t.Helper()
	var text []byte
	err := n.Node.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/ip_vs")
		if errors.Is(err, os.ErrNotExist) { // without the module there are no servers
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStateWithoutJournal checks that a plane without a journal goes on as before.
func TestStateWithoutJournal(t *testing.T) {
	kerneltest.Need(t)
	n := netnstest.NewNetwork(t)
	netnstest.LoseJournal(t, n, func() netnstest.Plane { return openPlane(t, n) })
}

package ipvs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// patience is for what has to happen, on a slow machine.
const patience = 60 * time.Second

// echo serves lines at an address of a namespace: each is answered with the
// client as the server sees it. It returns where.
func (n *network) echo(t testing.TB) netip.AddrPort {
	t.Helper()
	lis, _ := n.listen(t, plan.TCP, false)
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

// conversation is a connection to an echo.
type conversation struct {
	net.Conn
	lines *bufio.Scanner
}

func (n *network) talk(t testing.TB, from dataplanetest.Vantage, to netip.AddrPort) (*conversation, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := n.dial(ctx, from, 0, plan.TCP, to)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { conn.Close() })
	return &conversation{conn, bufio.NewScanner(conn)}, nil
}

// ask returns the client as the server sees it.
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

// seen connects once and returns the client as the server sees it.
func (n *network) seen(t testing.TB, from dataplanetest.Vantage, to netip.AddrPort) (netip.Addr, error) {
	c, err := n.talk(t, from, to)
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.ask()
}

func tcp(at netip.AddrPort, reals ...netip.AddrPort) *plan.VirtualServer {
	v := &plan.VirtualServer{
		Key:        plan.Key{Frontend: plan.Frontend{Addr: at, Protocol: plan.TCP}},
		Attributes: plan.Attributes{Scheduler: plan.RoundRobin, Drain: time.Hour, Masquerade: plan.MasqueradeAlways},
	}
	for _, r := range reals {
		v.Reals = append(v.Reals, plan.RealServer{Addr: r, Weight: 1})
	}
	return v
}

func apply(t testing.TB, p *kernel.Plane, steps ...plan.Step) {
	t.Helper()
	for _, f := range p.Apply(t.Context(), steps) {
		t.Fatalf("%s: %v (%s)", f.Step, f.Err, f.Remedy)
	}
}

func add(v *plan.VirtualServer) plan.Step {
	return plan.Step{Op: plan.AddServer, Key: v.Key, Server: v}
}

// start makes a network and a plane that knows the sources.
func start(t testing.TB) (*network, *kernel.Plane) {
	kerneltest.Need(t)
	n := newNetwork(t)
	p := n.plane(t)
	sources := n.sources()
	apply(t, p, plan.Step{Op: plan.SetSources, Sources: &sources})
	return n, p
}

func state(t testing.TB, p *kernel.Plane) *plan.State {
	t.Helper()
	s, err := p.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Whoever takes over finds what was there, and no connection notices.
func TestRestartAdopts(t *testing.T) {
	n, p := start(t)
	one, two := n.echo(t), n.echo(t)
	v, goes := tcp(n.freshFrontend(false), one, two), tcp(n.freshFrontend(false), one)
	goes.Drain = 0
	split := tcp(n.freshFrontend(false), one)
	split.Audience = plan.Internal
	splitOut := tcp(split.Addr, two)
	splitOut.Audience, splitOut.Masquerade = plan.External, plan.MasqueradeNever
	apply(t, p, add(v), add(goes), add(split), add(splitOut))
	stays, err := n.talk(t, dataplanetest.Inside, v.Addr)
	if err != nil {
		t.Fatal(err)
	}
	out, err := n.talk(t, dataplanetest.Outside, split.Addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*conversation{stays, out} {
		if _, err := c.ask(); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, p, plan.Step{Op: plan.DeleteReal, Key: v.Key, Real: v.Reals[0]}, plan.Step{Op: plan.DeleteReal, Key: v.Key, Real: v.Reals[1]})
	before := state(t, p)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	next := n.plane(t)
	after := state(t, next)
	after.Sources = before.Sources
	if steps := plan.Diff(before, after); len(steps) > 0 {
		t.Errorf("the next process finds a difference: %v", steps)
	}
	sources := n.sources()
	apply(t, next, plan.Step{Op: plan.SetSources, Sources: &sources}, add(v), add(split), add(splitOut),
		plan.Step{Op: plan.DeleteServer, Key: goes.Key})
	for name, c := range map[string]*conversation{"draining": stays, "outside": out} {
		if _, err := c.ask(); err != nil {
			t.Errorf("connection %s: %v", name, err)
		}
	}
	if got, err := n.seen(t, dataplanetest.Outside, split.Addr); err != nil || got != clientAddr(dataplanetest.Outside, 0, false) {
		t.Errorf("a client outside is seen as %v, %v", got, err)
	}
	if _, err := n.seen(t, dataplanetest.Inside, goes.Addr); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a server that was removed: %v", err)
	}
}

// What backends see of clients is what the plan says.
func TestMasquerade(t *testing.T) {
	n, p := start(t)
	backend := n.echo(t)
	for _, c := range []struct {
		choice plan.Masquerade
		hidden map[dataplanetest.Vantage]bool
	}{
		{plan.MasqueradeAlways, map[dataplanetest.Vantage]bool{dataplanetest.Inside: true, dataplanetest.Outside: true}},
		{plan.MasqueradeOutside, map[dataplanetest.Vantage]bool{dataplanetest.Outside: true}},
		{plan.MasqueradeNever, nil},
	} {
		v := tcp(n.freshFrontend(false), backend)
		v.Masquerade = c.choice
		apply(t, p, add(v))
		for _, from := range []dataplanetest.Vantage{dataplanetest.Inside, dataplanetest.Outside} {
			got, err := n.seen(t, from, v.Addr)
			if err != nil {
				t.Errorf("%s, %s: %v", c.choice, from, err)
				continue
			}
			if hidden := got != clientAddr(from, 0, false); hidden != c.hidden[from] {
				t.Errorf("%s, %s: seen as %s", c.choice, from, got)
			}
		}
	}
}

// A backend reaches itself through its own service.
func TestHairpin(t *testing.T) {
	n, p := start(t)
	backend := n.echo(t)
	v := tcp(n.freshFrontend(false), backend)
	v.Masquerade = plan.MasqueradeOutside
	apply(t, p, add(v))
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(backend.Addr(), 0)), Timeout: patience}
	var conn net.Conn
	err := n.backends.Do(func() (err error) {
		conn, err = d.DialContext(t.Context(), "tcp", v.Addr.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &conversation{conn, bufio.NewScanner(conn)}
	defer c.Close()
	if got, err := c.ask(); err != nil || got == backend.Addr() {
		t.Errorf("seen as %v, %v", got, err)
	}
}

// A socket of the node that listens everywhere does not answer at a virtual
// address, neither at a free port nor when its service has gone.
func TestNodeSocketsDoNotAnswerAtVirtualAddresses(t *testing.T) {
	n, p := start(t)
	backend := n.echo(t)
	own := tcp(netip.MustParseAddrPort("203.0.113.7:80"), backend) // outside of the ranges
	own.Exposure = plan.ExternalIP
	v := tcp(n.freshFrontend(false), backend)
	apply(t, p, add(v), add(own))
	for _, server := range []*plan.VirtualServer{v, own} {
		if _, err := n.seen(t, dataplanetest.Inside, server.Addr); err != nil {
			t.Errorf("%s: %v", server.Addr, err)
		}
	}
	var lis net.Listener
	err := n.node.Do(func() (err error) {
		lis, err = net.Listen("tcp", "0.0.0.0:7777")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, lis)
	if _, err := n.seen(t, dataplanetest.Inside, netip.AddrPortFrom(nodeIPs[0], 7777)); err != nil {
		t.Errorf("at the node's own address: %v", err)
	}
	for _, addr := range []netip.Addr{v.Addr.Addr(), own.Addr.Addr()} {
		for _, from := range []dataplanetest.Vantage{dataplanetest.Inside, dataplanetest.Node} {
			if _, err := n.seen(t, from, netip.AddrPortFrom(addr, 7777)); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("%s from %s: %v", addr, from, err)
			}
		}
	}
	own.Drain = 0
	apply(t, p, plan.Step{Op: plan.UpdateServer, Key: own.Key, Server: own})
	apply(t, p, plan.Step{Op: plan.DeleteServer, Key: own.Key})
	if routes := n.routesTo(t, own.Addr.Addr()); routes != 0 {
		t.Errorf("%d routes to %s are left", routes, own.Addr.Addr())
	}
}

func (n *network) routesTo(t testing.TB, addr netip.Addr) int {
	t.Helper()
	count := 0
	err := n.node.Do(func() error {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_LOCAL}, netlink.RT_FILTER_TABLE)
		for _, r := range routes {
			if r.Dst != nil && r.Dst.IP.Equal(addr.AsSlice()) {
				count++
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// A node port is served at the node's address; loopback, whose packets cannot
// leave the node, by a small proxy.
func TestNodePorts(t *testing.T) {
	n, p := start(t)
	backend := n.echo(t)
	v := tcp(netip.AddrPortFrom(nodeIPs[0], 30080), backend)
	v.Exposure = plan.NodePort
	apply(t, p, add(v))
	for _, from := range []dataplanetest.Vantage{dataplanetest.Inside, dataplanetest.Outside, dataplanetest.Node} {
		if _, err := n.seen(t, from, v.Addr); err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
	own := tcp(netip.MustParseAddrPort("127.0.0.1:30080"), backend)
	own.Exposure = plan.NodePort
	apply(t, p, add(own))
	if p.Programmed(own.Key) == nil || state(t, p).Servers[own.Key] == nil {
		t.Error("the node port on loopback does not count as programmed")
	}
	apply(t, p, plan.Step{Op: plan.DeleteServer, Key: own.Key})
}

// SCTP is forwarded like the rest.
func TestSCTP(t *testing.T) {
	n, p := start(t)
	backend := netip.AddrPortFrom(nth(serving[0], 256+n.backend.Add(1)), 8080)
	v := tcp(n.freshFrontend(false), backend)
	v.Protocol = plan.SCTP
	apply(t, p, add(v))
	lis, err := sctpSocket(n, backend, true)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(lis)
	client := -1
	err = n.clients.Do(func() (err error) {
		if client, err = sctp(); err != nil {
			return err
		}
		return unix.Connect(client, &unix.SockaddrInet4{Addr: v.Addr.Addr().As4(), Port: int(v.Addr.Port())})
	})
	if client >= 0 {
		defer unix.Close(client)
	}
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	server, _, err := unix.Accept(lis)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(server)
	if _, err := unix.Write(client, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if got, err := unix.Read(server, buf); err != nil || string(buf[:got]) != "hello" {
		t.Errorf("got %q, %v", buf[:max(got, 0)], err)
	}
}

// sctp opens a socket whose calls end.
func sctp() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
	if err != nil {
		return -1, err
	}
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &unix.Timeval{Sec: 60}); err != nil {
			return fd, err
		}
	}
	return fd, nil
}

func sctpSocket(n *network, at netip.AddrPort, listen bool) (fd int, err error) {
	err = n.backends.Do(func() error {
		if fd, err = sctp(); err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}); err != nil || !listen {
			return err
		}
		return unix.Listen(fd, 5)
	})
	return fd, err
}

// A virtual server of somebody else is left alone by everything, and is in the
// way of ours at its address only.
func TestForeignServersAreLeftAlone(t *testing.T) {
	n, other := start(t)
	backend := n.echo(t)
	theirs := tcp(netip.AddrPortFrom(nodeIPs[0], 8443), backend)
	theirs.Exposure = plan.NodePort
	apply(t, other, add(theirs))
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(n.journal); err != nil { // whose it was is forgotten
		t.Fatal(err)
	}
	p := n.plane(t)
	mine := tcp(n.freshFrontend(false), backend)
	failures := p.Apply(t.Context(), []plan.Step{add(mine), add(theirs)})
	if len(failures) != 1 || failures[0].Step.Key != theirs.Key || failures[0].Remedy == "" {
		t.Fatalf("failures %+v, want one about %s, with a remedy", failures, theirs.Key)
	}
	if p.Programmed(theirs.Key) != nil || p.Programmed(mine.Key) == nil {
		t.Error("programmed is not what the kernel has")
	}
	if s := state(t, p); len(s.Servers) != 1 {
		t.Errorf("state %v", s.Servers)
	}
	if err := p.Cleanup(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"TCP  AC1F0101:20FB": true, "TCP  0A60": false} {
		if got := strings.Contains(n.table(t), name); got != want {
			t.Errorf("%q in the kernel's table: %v, want %v\n%s", name, got, want, n.table(t))
		}
	}
	if _, err := n.seen(t, dataplanetest.Outside, theirs.Addr); err != nil {
		t.Errorf("their server: %v", err)
	}
}

// table is the kernel's own list of virtual servers.
func (n *network) table(t testing.TB) string {
	t.Helper()
	var text []byte
	err := n.node.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/ip_vs")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An endpoint that cannot be is reported, and the others serve.
func TestEndpointsThatMakeNoSense(t *testing.T) {
	n, p := start(t)
	backend := n.echo(t)
	v := tcp(n.freshFrontend(false), netip.MustParseAddrPort("10.64.0.1:0"), backend, netip.MustParseAddrPort("[fd00::1]:80"))
	failures := p.Apply(t.Context(), []plan.Step{add(v)})
	if len(failures) != 1 || !errors.Is(failures[0].Err, dataplane.ErrNotSupported) {
		t.Errorf("failures %+v", failures)
	}
	if got := p.Programmed(v.Key); got == nil || len(got.Reals) != 1 {
		t.Errorf("programmed %+v", got)
	}
	if _, err := n.seen(t, dataplanetest.Inside, v.Addr); err != nil {
		t.Error(err)
	}
}

// A scheduler that the kernel does not have is reported, and rr serves.
func TestMissingScheduler(t *testing.T) {
	n, p := start(t)
	kittest.Eventually(t, "nobody uses the module any more", func() error { return unix.DeleteModule("ip_vs_mh", unix.O_NONBLOCK) })
	t.Cleanup(func() {
		f, err := os.Open("/modules/ip_vs_mh")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
			t.Errorf("load again: %v", err)
		}
	})
	backend := n.echo(t)
	v := tcp(n.freshFrontend(false), backend)
	v.Scheduler = plan.Maglev
	failures := p.Apply(t.Context(), []plan.Step{add(v)})
	if len(failures) != 1 || !errors.Is(failures[0].Err, dataplane.ErrNotSupported) || !strings.Contains(failures[0].Remedy, "ip_vs_mh") {
		t.Errorf("failures %+v", failures)
	}
	if _, err := n.seen(t, dataplanetest.Inside, v.Addr); err != nil {
		t.Error(err)
	}
}

// Whatever is changed behind the agent's back is found and put back.
func TestDrift(t *testing.T) {
	n, p := start(t)
	one, two := n.echo(t), n.echo(t)
	v, lost := tcp(n.freshFrontend(false), one, two), tcp(n.freshFrontend(false), one)
	apply(t, p, add(v), add(lost))
	want := state(t, p)
	vandal, err := ipvs.New(kernel.Options{Log: kittest.Logger(t), Journal: n.journal, ServiceCIDRs: virtual[:], Namespace: n.node.Path})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, vandal, plan.Step{Op: plan.UpdateReal, Key: v.Key, Real: plan.RealServer{Addr: one, Weight: 9}})
	if err := vandal.Cleanup(); err != nil { // takes rules and routes too
		t.Fatal(err)
	}
	if err := vandal.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.seen(t, dataplanetest.Inside, v.Addr); err == nil {
		t.Fatal("it still serves: nothing was broken")
	}
	steps := plan.Diff(state(t, p), want)
	if len(steps) != 2 {
		t.Errorf("the audit finds %v", steps)
	}
	apply(t, p, steps...)
	for _, server := range []*plan.VirtualServer{v, lost} {
		for _, from := range []dataplanetest.Vantage{dataplanetest.Inside, dataplanetest.Outside, dataplanetest.Node} {
			if _, err := n.seen(t, from, server.Addr); err != nil {
				t.Errorf("%s from %s: %v", server.Addr, from, err)
			}
		}
	}
	if steps := plan.Diff(state(t, p), want); len(steps) > 0 {
		t.Errorf("still different: %v", steps)
	}
}

// Many servers at once are many messages, and an error is that of its own
// message.
func TestManyServersAndOneError(t *testing.T) {
	n, p := start(t)
	foreign := tcp(nthFrontend(700))
	apply(t, p, add(foreign))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(n.journal); err != nil {
		t.Fatal(err)
	}
	next := n.plane(t)
	var steps []plan.Step
	for i := range uint32(1000) {
		steps = append(steps, add(tcp(nthFrontend(i), netip.AddrPortFrom(nth(serving[0], i), 80))))
	}
	failures := next.Apply(t.Context(), plan.Order(steps))
	if len(failures) != 1 || failures[0].Step.Key != foreign.Key {
		t.Errorf("%d failures: %+v", len(failures), failures)
	}
	if s := state(t, next); len(s.Servers) != 999 {
		t.Errorf("%d servers in the kernel", len(s.Servers))
	}
	if err := next.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(n.table(t), "TCP "); got != 1 {
		t.Errorf("%d servers are left, want the foreign one", got)
	}
}

func nthFrontend(i uint32) netip.AddrPort { return netip.AddrPortFrom(nth(virtual[0], 256+i), 80) }

func TestProbe(t *testing.T) {
	n, _ := start(t)
	if err := ipvs.Probe(n.node.Path); err != nil {
		t.Error(err)
	}
	if err := ipvs.Probe("/nowhere"); err == nil {
		t.Error("a namespace that is not there has IPVS")
	}
}

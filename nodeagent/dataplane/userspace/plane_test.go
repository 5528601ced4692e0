package userspace_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// echo is a TCP backend that returns the data that it reads.
type echo struct {
	addr netip.AddrPort
	lis  net.Listener
	ends chan error // the end of each connection, as seen by the backend
	done sync.WaitGroup
}

func startEcho(t testing.TB, r *rig) *echo {
	lis, _ := r.Listen(t, plan.TCP, false)
	e := &echo{lis: lis, addr: lis.Addr().(*net.TCPAddr).AddrPort(), ends: make(chan error, 1000)}
	e.done.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			e.done.Go(func() {
				_, err := io.Copy(conn, conn)
				conn.Close()
				e.ends <- err
			})
		}
	})
	t.Cleanup(e.stop)
	return e
}

// stop closes the listener. Connections end when their clients close them.
func (e *echo) stop() { e.lis.Close() }

// deadAddr returns an address without a listener.
func deadAddr(t testing.TB, r *rig) netip.AddrPort {
	lis, _ := r.Listen(t, plan.TCP, false)
	defer lis.Close()
	return lis.Addr().(*net.TCPAddr).AddrPort()
}

func server(key plan.Frontend, addrs ...netip.AddrPort) *plan.VirtualServer {
	v := &plan.VirtualServer{Key: plan.Key{Frontend: key}, Attributes: plan.Attributes{Scheduler: plan.RoundRobin, Drain: time.Hour}}
	for _, a := range addrs {
		v.Reals = append(v.Reals, plan.RealServer{Addr: a, Weight: 1})
	}
	// A plan's backends are sorted.
	for i := range v.Reals {
		for j := range v.Reals[:i] {
			if v.Reals[i].Addr.Compare(v.Reals[j].Addr) < 0 {
				v.Reals[i], v.Reals[j] = v.Reals[j], v.Reals[i]
			}
		}
	}
	return v
}

func mustApply(t testing.TB, p *userspace.Plane, servers ...*plan.VirtualServer) {
	t.Helper()
	for _, f := range p.Apply(context.Background(), dataplanetest.Changes(servers...)) {
		t.Fatalf("%s: %v", f.Frontend, f.Err)
	}
}

// ask sends a line over a new connection and expects it back.
func ask(r *rig, to netip.AddrPort) error { return askAs(r, 0, to) }

// askAs does the same as ask for the n-th client.
func askAs(r *rig, n int, to netip.AddrPort) error {
	conn, err := r.dialAs(context.Background(), n, plan.TCP, to)
	if err != nil {
		return err
	}
	defer conn.Close()
	return say(conn)
}

func say(conn net.Conn) error {
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "hello\n" {
		err = fmt.Errorf("got %q", line)
	}
	return err
}

func frontend(t testing.TB, r *rig, p plan.Protocol) plan.Frontend {
	return plan.Frontend{Addr: r.Frontend(t, plan.ClusterIP, p, false), Protocol: p}
}

func TestTakenPortIsReportedAndTheRestWorks(t *testing.T) {
	r := newRig(t, userspace.Options{})
	backend := startEcho(t, r)
	taken, free := frontend(t, r, plan.TCP), frontend(t, r, plan.TCP)
	foreign, err := net.Listen("tcp", taken.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()

	failed := r.plane.Apply(context.Background(), dataplanetest.Changes(server(taken, backend.addr), server(free, backend.addr)))
	if len(failed) != 1 || failed[0].Frontend != taken || !errors.Is(failed[0].Err, syscall.EADDRINUSE) {
		t.Fatalf("failures %+v, want EADDRINUSE for %s", failed, taken)
	}
	if port := fmt.Sprint(taken.Addr.Port()); !strings.Contains(failed[0].Remedy, "ss -lnp 'sport = :"+port) {
		t.Errorf("remedy %q does not say who to look for", failed[0].Remedy)
	}
	if r.plane.Programmed(plan.Key{Frontend: taken}) != nil {
		t.Error("the taken port counts as programmed")
	}
	if state, _ := r.plane.State(t.Context()); len(state.Servers) != 1 {
		t.Errorf("%d servers in force, want 1", len(state.Servers))
	}
	if err := ask(r, free.Addr); err != nil {
		t.Errorf("the other server: %v", err)
	}

	foreign.Close()
	mustApply(t, r.plane, server(taken, backend.addr))
	if err := ask(r, taken.Addr); err != nil {
		t.Errorf("after the port was freed: %v", err)
	}
}

// TestReplacedServerHasOnlyItsNewBackends adds a server again with other backends. The former
// backends get no new connections, and a connection to one of them continues.
func TestReplacedServerHasOnlyItsNewBackends(t *testing.T) {
	r := newRig(t, userspace.Options{})
	old, both, fresh := startEcho(t, r), startEcho(t, r), startEcho(t, r)
	f := frontend(t, r, plan.TCP)
	hold := func() net.Conn {
		t.Helper()
		conn, err := r.dialAs(t.Context(), 0, plan.TCP, f.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := say(conn); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	mustApply(t, r.plane, server(f, old.addr, both.addr))
	before := []net.Conn{hold(), hold()} // round robin: one at each
	mustApply(t, r.plane, server(f, both.addr, fresh.addr))
	for range 4 {
		hold()
	}
	want := map[netip.AddrPort]uint32{old.addr: 1, both.addr: 3, fresh.addr: 2}
	if got := r.connections(plan.Key{Frontend: f}); !maps.Equal(got, want) {
		t.Errorf("connections %v, want %v", got, want)
	}
	for _, conn := range before {
		if err := say(conn); err != nil {
			t.Errorf("a connection from before: %v", err)
		}
	}
}

// TestDrainedServersAreForgotten checks that nothing is kept of a deleted server once its last
// connection has ended.
func TestDrainedServersAreForgotten(t *testing.T) {
	r := newRig(t, userspace.Options{})
	backend, f := startEcho(t, r), frontend(t, r, plan.TCP)
	v := server(f, backend.addr)
	mustApply(t, r.plane, v)
	conn, err := r.dialAs(t.Context(), 0, plan.TCP, f.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := say(conn); err != nil {
		t.Fatal(err)
	}
	if failed := r.plane.Apply(context.Background(), dataplanetest.Removal(v.Frontend)); len(failed) > 0 {
		t.Fatal(failed)
	}
	if n := r.plane.Frontends(); n != 1 {
		t.Errorf("%d frontends while one drains", n)
	}
	conn.Close()
	kittest.Eventually(t, "the frontend to be forgotten", func() error {
		if n := r.plane.Frontends(); n != 0 {
			return fmt.Errorf("%d frontends", n)
		}
		return nil
	})
}

func TestForeignAddressIsReported(t *testing.T) {
	r := newRig(t, userspace.Options{})
	v := server(plan.Frontend{Addr: netip.MustParseAddrPort("192.0.2.1:80"), Protocol: plan.UDP}, netip.MustParseAddrPort("127.0.0.1:1"))
	failed := r.plane.Apply(context.Background(), dataplanetest.Changes(v))
	if len(failed) != 1 || !errors.Is(failed[0].Err, syscall.EADDRNOTAVAIL) || !strings.Contains(failed[0].Remedy, "ip addr add 192.0.2.1") {
		t.Errorf("failures %+v", failed)
	}
}

// TestDeadBackendIsAskedOnce checks that after a failed dial no other client waits for that backend
// for a while.
func TestDeadBackendIsAskedOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := newRig(t, userspace.Options{FailedFor: time.Hour, Metrics: reg})
	alive, f := startEcho(t, r), frontend(t, r, plan.TCP)
	mustApply(t, r.plane, server(f, alive.addr, deadAddr(t, r)))
	for range 20 {
		if err := ask(r, f.Addr); err != nil {
			t.Fatal(err)
		}
	}
	if n := counter(t, reg, "portolan_nodeagent_userspace_dial_failures_total"); n != 1 {
		t.Errorf("%v dials failed, want 1", n)
	}
}

// TestBackendThatLeavesIsNoFailedAttempt checks that a client that waits for a backend is served by
// another one if the first is removed, even though only one attempt may fail.
func TestBackendThatLeavesIsNoFailedAttempt(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := newRig(t, userspace.Options{MaxAttempts: 1, Metrics: reg})
	silent, alive, f := startEcho(t, r), startEcho(t, r), frontend(t, r, plan.TCP)
	if err := dataplanetest.Silence(silent.lis.(*net.TCPListener)); err != nil {
		t.Fatal(err)
	}
	before, after := server(f, silent.addr), server(f, alive.addr)
	mustApply(t, r.plane, before)
	asked := make(chan error, 1)
	go func() { asked <- ask(r, f.Addr) }()
	kittest.Eventually(t, "the client waits for the silent backend", func() error {
		if r.connections(before.Key)[silent.addr] != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	mustApply(t, r.plane, after)
	if err := kittest.Receive(t, "the answer", asked); err != nil {
		t.Error(err)
	}
	if n := counter(t, reg, "portolan_nodeagent_userspace_dial_failures_total"); n != 0 {
		t.Errorf("%v dials failed, want none", n)
	}
}

func counter(t testing.TB, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// TestAllBackendsDead checks that the client gets an error, and that a backend that comes back is
// used although it failed before.
func TestAllBackendsDead(t *testing.T) {
	r := newRig(t, userspace.Options{FailedFor: time.Hour})
	f, dead := frontend(t, r, plan.TCP), deadAddr(t, r)
	mustApply(t, r.plane, server(f, dead))
	if err := ask(r, f.Addr); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("asking a dead backend: %v, want a reset", err)
	}
	lis, err := net.Listen("tcp", dead.String())
	if err != nil {
		t.Skipf("allowed: somebody else took %s meanwhile", dead)
	}
	defer lis.Close()
	go func() {
		conn, err := lis.Accept()
		if err == nil {
			io.Copy(conn, conn)
			conn.Close()
		}
	}()
	if err := ask(r, f.Addr); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

func TestResetsArePassedOn(t *testing.T) {
	r := newRig(t, userspace.Options{})
	backend, f := startEcho(t, r), frontend(t, r, plan.TCP)
	mustApply(t, r.plane, server(f, backend.addr))
	conn, err := r.dialAs(t.Context(), 0, plan.TCP, f.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := say(conn); err != nil {
		t.Fatal(err)
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
	if err := kittest.Receive(t, "the end at the backend", backend.ends); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the backend saw %v, want a reset", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	r := newRig(t, userspace.Options{})
	backend, f := startEcho(t, r), frontend(t, r, plan.TCP)
	mustApply(t, r.plane, server(f, backend.addr))
	conn, err := r.dialAs(t.Context(), 0, plan.TCP, f.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := say(conn); err != nil {
		t.Fatal(err)
	}
	if n := r.connections(plan.Key{Frontend: f})[backend.addr]; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	if err := r.plane.Close(); err != nil {
		t.Fatal(err)
	}
	if err := say(conn); err == nil {
		t.Error("the connection still works")
	}
	if err := ask(r, f.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: %v, want refused", err)
	}
	if failed := r.plane.Apply(context.Background(), dataplanetest.Changes(server(f, backend.addr))); len(failed) != 1 {
		t.Error("a closed plane takes steps")
	}
}

// TestNoRequestFailsWhileBackendsComeAndGo changes the backends all the time, with always one in
// use, while clients connect. Each connection comes from another address, because one address has
// 28,000 ports, which cannot be reused for a minute.
func TestNoRequestFailsWhileBackendsComeAndGo(t *testing.T) {
	r := newRig(t, userspace.Options{})
	f := frontend(t, r, plan.TCP)
	var backends []*echo
	for range 3 {
		backends = append(backends, startEcho(t, r))
	}
	state := server(f, backends[0].addr)
	mustApply(t, r.plane, state)

	ctx, stop := context.WithCancel(t.Context())
	failures := make(chan error, 4)
	var clients sync.WaitGroup
	for first := range 4 {
		clients.Go(func() {
			for n := first; ctx.Err() == nil; n = (n + 4) % 1000 {
				if err := askAs(r, n, f.Addr); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	for i := range 300 {
		next := server(f, backends[i%3].addr)
		if i%2 == 0 {
			next = server(f, backends[i%3].addr, backends[(i+1)%3].addr)
		}
		mustApply(t, r.plane, next)
		state = next
	}
	stop()
	clients.Wait()
	select {
	case err := <-failures:
		t.Error(err)
	default:
	}
}

package userspace_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// startUDP starts a backend that returns every datagram.
func startUDP(t testing.TB, r *rig) netip.AddrPort {
	_, conn := r.Listen(t, plan.UDP, false)
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 65535)
		for {
			n, from, err := conn.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				conn.WriteTo(buf[:n], from)
			}
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func dialUDP(t testing.TB, r *rig, n int, to netip.AddrPort) net.Conn {
	t.Helper()
	conn, err := r.dialAs(t.Context(), n, plan.UDP, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// exchange sends a datagram and waits for its answer.
func exchange(conn net.Conn, wait time.Duration) error {
	conn.SetDeadline(time.Now().Add(wait))
	if _, err := conn.Write([]byte("hello")); err != nil {
		return err
	}
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	if err == nil && string(buf[:n]) != "hello" {
		err = fmt.Errorf("got %q", buf[:n])
	}
	return err
}

func TestFlowsEndWhenIdle(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := newRig(t, userspace.Options{FlowIdle: 20 * time.Millisecond, Metrics: reg})
	backend, f := startUDP(t, r), frontend(t, r, plan.UDP)
	mustApply(t, r.plane, server(f, backend))
	conn := dialUDP(t, r, 0, f.Addr)
	for range 3 {
		// On a busy machine the backend's answer may arrive after the flow has ended, and is lost.
		// The client then sends again, over another flow.
		kittest.Eventually(t, "an answer", func() error { return exchange(conn, time.Second) })
		kittest.Eventually(t, "the flow to end", func() error {
			if n := r.connections(plan.Key{Frontend: f})[backend]; n != 0 {
				return fmt.Errorf("%d flows", n)
			}
			if n := counter(t, reg, "portolan_nodeagent_userspace_flows_active"); n != 0 {
				return fmt.Errorf("%v flows by the metric", n)
			}
			return nil
		})
	}
}

func TestFlowsAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := newRig(t, userspace.Options{MaxFlows: 2, Metrics: reg})
	backend, f := startUDP(t, r), frontend(t, r, plan.UDP)
	mustApply(t, r.plane, server(f, backend))
	for n := range 2 {
		if err := exchange(dialUDP(t, r, n, f.Addr), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := exchange(dialUDP(t, r, 2, f.Addr), 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one too many: %v, want silence", err)
	}
	kittest.Eventually(t, "the drop to be counted", func() error {
		if n := counter(t, reg, "portolan_nodeagent_userspace_datagrams_dropped_total"); n != 1 {
			return fmt.Errorf("%v dropped", n)
		}
		return nil
	})
}

// TestDeadUDPBackendIsLeft checks that after an ICMP error from a backend without a listener, the
// client's next datagrams go to another backend.
func TestDeadUDPBackendIsLeft(t *testing.T) {
	r := newRig(t, userspace.Options{FailedFor: time.Hour})
	_, gone := r.Listen(t, plan.UDP, false)
	dead := gone.LocalAddr().(*net.UDPAddr).AddrPort()
	gone.Close()
	alive, f := startUDP(t, r), frontend(t, r, plan.UDP)
	mustApply(t, r.plane, server(f, dead))
	conn := dialUDP(t, r, 0, f.Addr)
	if err := exchange(conn, 50*time.Millisecond); err == nil {
		t.Fatal("answered by nobody")
	}
	mustApply(t, r.plane, server(f, dead, alive))
	kittest.Eventually(t, "an answer", func() error { return exchange(conn, 50*time.Millisecond) })
	for n := range 5 {
		if err := exchange(dialUDP(t, r, n, f.Addr), time.Minute); err != nil {
			t.Errorf("client %d: %v", n, err)
		}
	}
}

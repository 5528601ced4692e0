package announce

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
)

// longValidity is longer than the time in which the agents find a new leader on a slow machine.
const longValidity = 6 * time.Second

// TestConnectionsSurviveADrain checks that connections with steady traffic go on when their node is
// drained, and when afterwards the next node's agent dies, the leader of lbctl changes and the address
// moves on. New connections go through the node that has the address.
func TestConnectionsSurviveADrain(t *testing.T) {
	for _, mode := range kernelModes(t) {
		t.Run(mode, func(t *testing.T) {
			l := install(t, mode, longValidity)
			for _, addr := range balanced {
				l.keepsConnections(t, addr)
			}
		})
	}
}

func (l *lan) keepsConnections(t *testing.T, addr netip.Addr) {
	first := l.node(l.owner(t, addr, ""))
	kittest.Eventually(t, "the service", func() error { return l.reach(addr) })
	early := l.steady(t, addr)
	before := len(l.capture.all())

	second := l.moves(t, addr, first)
	next := l.steady(t, addr)
	early.goesThrough(t, first)
	next.goesThrough(t, second)
	l.claimedBy(t, addr, before, first, second)
	early.goesOn(t, "after the drain")
	if got := l.previous(t, second, addr); got != first.Name {
		t.Errorf("%s: the previous node is %q, want %s", second.Name, got, first.Name)
	}

	second.Process.Kill()
	early.goesOn(t, "without the agent of the next node")
	l.StartAgent(second)
	awaitReady(t, second)
	l.announces(t, addr, second)
	early.goesOn(t, "after the restart of the agent")

	l.lead(t)
	l.announces(t, addr, second)
	early.goesOn(t, "under a new leader")
	if got := l.previous(t, second, addr); got != first.Name {
		t.Errorf("%s: the new leader's previous node is %q, want %s", second.Name, got, first.Name)
	}
	early.stop()

	l.drain(t, first, false)
	third := l.moves(t, addr, second)
	next.goesOn(t, "after the next drain")
	next.stop()
	l.die(t, second)
	kittest.Eventually(t, "the end of the hand-over", func() error {
		if got := l.previous(t, third, addr); got != "" {
			return fmt.Errorf("%s: the previous node is still %s, which is dead", third.Name, got)
		}
		return nil
	})
	l.revive(t, second)
	l.drain(t, second, false)
}

// moves drains the owner of an address, waits until the client sends to another node, and returns that
// node.
func (l *lan) moves(t *testing.T, addr netip.Addr, from *labtest.Node) *labtest.Node {
	t.Helper()
	l.drain(t, from, true)
	next := l.node(l.owner(t, addr, from.Name))
	hardware := l.hardware(t, next)
	kittest.Eventually(t, "the client to learn of "+next.Name, func() error {
		return l.client.Do(func() error {
			all, err := netlink.NeighList(0, netlink.FAMILY_ALL)
			for i := range all {
				if at, _ := netip.AddrFromSlice(all[i].IP); at.Unmap() == addr && slices.Equal(all[i].HardwareAddr, hardware) {
					return nil
				}
			}
			return fmt.Errorf("%v, %w", all, err)
		})
	})
	return next
}

// hardware returns the hardware address of a node on the LAN.
func (l *lan) hardware(t *testing.T, node *labtest.Node) (addr net.HardwareAddr) {
	t.Helper()
	err := node.Namespace.Do(func() error {
		device, err := net.InterfaceByName("lan")
		if err == nil {
			addr = device.HardwareAddr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// announces waits until a node announces an address, and fails if another one does.
func (l *lan) announces(t *testing.T, addr netip.Addr, node *labtest.Node) {
	t.Helper()
	if got := l.owner(t, addr, ""); got != node.Name {
		t.Errorf("%s is announced by %s, want %s", addr, got, node.Name)
	}
}

// claimedBy checks that only the two nodes have claimed an address, and none of them after its successor. It
// leaves out the first claims, of the number since.
func (l *lan) claimedBy(t *testing.T, addr netip.Addr, since int, first, second *labtest.Node) {
	t.Helper()
	l.checkOrder(t, since)
	for _, name := range l.claimants(addr, since) {
		if name != first.Name && name != second.Name {
			t.Errorf("%s is claimed by %s", addr, name)
		}
	}
}

// previous returns the node to which a node sends packets of earlier connections.
func (l *lan) previous(t *testing.T, node *labtest.Node, addr netip.Addr) (name string) {
	t.Helper()
	kittest.Eventually(t, "the status of "+node.Name, func() error {
		status, err := node.Agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		for _, a := range status.GetAnnouncing().GetAddresses() {
			if a.GetAddress() == addr.String() {
				name = a.GetPreviousNode()
				return nil
			}
		}
		return fmt.Errorf("%s does not announce %s: %v", node.Name, addr, status.GetAnnouncing())
	})
	return name
}

// traffic is a connection with steady traffic both ways.
type traffic struct {
	*connection
	addr   netip.Addr
	rounds chan int   // the number of lines so far
	failed chan error // receives the error that ends the traffic
	end    chan struct{}
}

// steady opens a connection and sends lines that come back, all the time.
func (l *lan) steady(t *testing.T, addr netip.Addr) *traffic {
	t.Helper()
	c := &traffic{connection: l.dial(t, addr), addr: addr, rounds: make(chan int, 1), failed: make(chan error, 1), end: make(chan struct{})}
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for n := 1; ; n++ {
			select {
			case <-c.end:
				c.failed <- nil
				return
			case <-ticker.C:
			}
			if err := c.echo(); err != nil {
				c.failed <- err
				return
			}
			select {
			case <-c.rounds:
			default:
			}
			c.rounds <- n
		}
	}()
	t.Cleanup(c.stop)
	return c
}

// stop ends the traffic. A second stop does nothing.
func (c *traffic) stop() {
	select {
	case <-c.end:
	default:
		close(c.end)
		<-c.failed
		_ = c.Close()
	}
}

// goesOn waits until lines have come back for some time.
func (c *traffic) goesOn(t *testing.T, when string) {
	t.Helper()
	const lines = 50
	for from := <-c.rounds; ; {
		select {
		case n := <-c.rounds:
			if n >= from+lines {
				return
			}
		case err := <-c.failed:
			t.Fatalf("the connection to %s has ended %s: %v", c.addr, when, err)
		}
	}
}

// goesThrough fails unless a node tracks the connection, so that its packets go through this node.
func (c *traffic) goesThrough(t *testing.T, node *labtest.Node) {
	t.Helper()
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	family := netlink.InetFamily(netlink.FAMILY_V4)
	if c.addr.Is6() {
		family = netlink.FAMILY_V6
	}
	found := false
	err = node.Namespace.Do(func() error {
		flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
		for _, f := range flows {
			to, _ := netip.AddrFromSlice(f.Forward.DstIP)
			found = found || to.Unmap() == c.addr && f.Forward.SrcPort == local.Port()
		}
		return err
	})
	if err != nil || !found {
		t.Errorf("the connection from port %d is not one of %s, %v", local.Port(), node.Name, err)
	}
}

package nftables_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// patience is the timeout for events on a slow machine.
const patience = 60 * time.Second

// TestTraffic checks that connections are counted by server, and that later packets are not
// counted. If an agent without counters is replaced by one with counters, the tables are built
// anew.
func TestTraffic(t *testing.T) {
	kerneltest.Need(t)
	n := netnstest.NewNetwork(t)
	backend := echo(t, n)
	busy, idle := netnstest.Server(n.Frontend(t, plan.ClusterIP, plan.TCP, false), backend), netnstest.Server(n.Frontend(t, plan.ClusterIP, plan.TCP, false), backend)
	busy.Service, busy.PortName = object.Name{Namespace: "default", Name: "busy"}, "http"
	sources := n.Sources()
	changes := dataplanetest.Changes(busy, idle)
	changes.Sources = &sources
	without, err := nftables.New(kernel.Options{
		Log: slog.New(slog.DiscardHandler), Journal: n.Journal, ServiceCIDRs: netnstest.Virtual[:], Namespace: n.Node.Path,
	})
	if err != nil {
		t.Fatal(err)
	}
	netnstest.Apply(t, without, changes)
	knock(t, n, busy.Addr)
	if found, err := without.Traffic(); err != nil || fmt.Sprint(connections(found)) != fmt.Sprint(map[plan.Frontend]uint64{busy.Frontend: 0, idle.Frontend: 0}) {
		t.Errorf("without counting: %v, %v", found, err)
	}
	if err := without.Close(); err != nil {
		t.Fatal(err)
	}
	p := openPlane(t, n)
	netnstest.Apply(t, p, changes)
	const clients = 3
	for range clients {
		knock(t, n, busy.Addr)
	}
	found, err := p.Traffic()
	if err != nil {
		t.Fatal(err)
	}
	if got := connections(found); got[busy.Frontend] != clients || got[idle.Frontend] != 0 || len(got) != 2 {
		t.Errorf("traffic %+v", found)
	}
	for _, c := range found {
		if c.Server == busy.Frontend && (c.Service != busy.Service || c.PortName != "http") {
			t.Errorf("traffic of %+v", c)
		}
	}
}

func connections(found []kernelmode.Counted) map[plan.Frontend]uint64 {
	out := map[plan.Frontend]uint64{}
	for _, c := range found {
		out[c.Server] = c.Connections
	}
	return out
}

// echo starts a backend that returns the data that it reads.
func echo(t *testing.T, n *netnstest.Network) netip.AddrPort {
	t.Helper()
	lis, _ := n.Listen(t, plan.TCP, false)
	t.Cleanup(func() { lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn) //nolint:errcheck // the client sees it
			}()
		}
	}()
	return lis.Addr().(*net.TCPAddr).AddrPort()
}

// knock makes one connection and exchanges a line each way.
func knock(t *testing.T, n *netnstest.Network, at netip.AddrPort) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	from := dataplanetest.Inside
	conn, err := n.Dial(ctx, from, netip.AddrPortFrom(n.ClientAddr(from, 0, false), 0), plan.TCP, at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // it is a socket
	fmt.Fprintln(conn, "hello")
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

package nftables_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/plan"
)

// kinds are the kinds of servers that have rules of their own.
var kinds = map[string]func(v *plan.VirtualServer){
	"rr":            func(*plan.VirtualServer) {},
	"one backend":   func(v *plan.VirtualServer) { v.Reals = v.Reals[:1] },
	"dh":            func(v *plan.VirtualServer) { v.Scheduler = plan.DestinationHash },
	"sh":            func(v *plan.VirtualServer) { v.Scheduler = plan.SourceHash },
	"mh with ports": func(v *plan.VirtualServer) { v.Scheduler, v.Flags = plan.Maglev, plan.HashPort },
	"affinity":      func(v *plan.VirtualServer) { v.Affinity = time.Hour },
	"affinity, sh":  func(v *plan.VirtualServer) { v.Affinity, v.Scheduler = time.Hour, plan.SourceHash },
	"no affinity yet, one idle": func(v *plan.VirtualServer) {
		v.Affinity, v.Reals[0].Weight = time.Hour, 0
	},
}

// ofEachKind returns servers of each kind, with backends that accept connections.
func ofEachKind(t *testing.T, n *netnstest.Network, v6 bool) []*plan.VirtualServer {
	t.Helper()
	var out []*plan.VirtualServer
	for _, change := range kinds {
		v := netnstest.Server(n.Frontend(t, plan.ClusterIP, plan.TCP, v6))
		for range 2 {
			lis, _ := n.Listen(t, plan.TCP, v6)
			t.Cleanup(func() { lis.Close() })
			v.Reals = append(v.Reals, plan.RealServer{Addr: lis.Addr().(*net.TCPAddr).AddrPort(), Weight: 1})
		}
		change(v)
		out = append(out, v)
	}
	return out
}

// reach connects to a server from a location.
func reach(t *testing.T, n *netnstest.Network, from dataplanetest.ClientLocation, to netip.AddrPort) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := n.Dial(ctx, from, netip.AddrPortFrom(n.ClientAddr(from, 1, to.Addr().Is6()), 0), plan.TCP, to)
	if err != nil {
		return fmt.Errorf("from %s: %w", from, err)
	}
	return conn.Close()
}

// TestRestoredRulesForward restores a ruleset that nft has listed, as from a backup, and checks that
// its rules and maps forward connections as before.
func TestRestoredRulesForward(t *testing.T) {
	n, p := start(t)
	nft := netnstest.FindNft(t)
	if nft == nil {
		t.Skip("allowed: nft is missing")
	}
	servers := ofEachKind(t, n, false)
	netnstest.Program(t, p, servers...)
	for _, v := range servers {
		if err := reach(t, n, dataplanetest.Inside, v.Addr); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil { // so that it repairs nothing
		t.Fatal(err)
	}
	text, err := nft.List(n.Node)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Node.Do(func() error { return exec.Command("nft", "flush", "ruleset").Run() }); err != nil {
		t.Fatal(err)
	}
	if err := reach(t, n, dataplanetest.Inside, servers[0].Addr); err == nil {
		t.Fatal("a server without rules is reached")
	}
	if err := nft.Restore(n.Node, text); err != nil {
		t.Fatal(err)
	}
	for _, v := range servers {
		for _, from := range []dataplanetest.ClientLocation{dataplanetest.Inside, dataplanetest.Outside, dataplanetest.Node} {
			if err := reach(t, n, from, v.Addr); err != nil {
				t.Errorf("%s, affinity %s: %v", v.Scheduler, v.Affinity, err)
			}
		}
	}
	if got := netnstest.State(t, openPlane(t, n)); len(got.Servers) != len(servers) {
		t.Errorf("%d servers, want %d", len(got.Servers), len(servers))
	}
}

// TestNotesDoNotLeave checks that packets leave the node without the numbers that the rules note in
// their priority.
func TestNotesDoNotLeave(t *testing.T) {
	n, p := start(t)
	err := n.Node.Do(func() error {
		out, err := exec.Command("nft", `table inet watch {
			chain leaving { type filter hook postrouting priority 300; meta priority & f000:0 == f000:0 drop; }
		}`).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v6 := range []bool{false, true} {
		servers := ofEachKind(t, n, v6)
		netnstest.Program(t, p, servers...)
		for _, v := range servers {
			for _, from := range []dataplanetest.ClientLocation{dataplanetest.Inside, dataplanetest.Inside, dataplanetest.Outside, dataplanetest.Node} {
				if err := reach(t, n, from, v.Addr); err != nil {
					t.Fatalf("%s, affinity %s: %v", v.Scheduler, v.Affinity, err)
				}
			}
		}
	}
}

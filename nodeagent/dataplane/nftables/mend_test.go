package nftables_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	google "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/plan"
)

// TestProbeOfNoNamespace checks that Probe returns an error for a namespace that does not exist.
func TestProbeOfNoNamespace(t *testing.T) {
	kerneltest.Need(t)
	if err := nftables.Probe(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a namespace that is not there can do all that is needed")
	}
}

// TestChangeOfSourcesMendsTables deletes all tables and changes the node's addresses. The servers
// must be restored.
func TestChangeOfSourcesMendsTables(t *testing.T) {
	n, p := start(t)
	v := netnstest.Server(n.Frontend(t, plan.ClusterIP, plan.TCP, false), echo(t, n))
	netnstest.Program(t, p, v)
	err := n.Node.Do(func() error {
		conn, err := google.New()
		if err != nil {
			return err
		}
		conn.FlushRuleset()
		return conn.Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
	sources := n.Sources()
	sources.Node = append(sources.Node[:len(sources.Node):len(sources.Node)], netip.MustParsePrefix("192.0.2.77/32"))
	netnstest.SetSources(t, p, sources)
	knock(t, n, v.Addr)
}

// TestChangeOfSourcesDecidesWhoIsInside checks that a client stops being internal as soon as no pod
// range contains it, without a read of the kernel in between.
func TestChangeOfSourcesDecidesWhoIsInside(t *testing.T) {
	n, p := start(t)
	v := netnstest.Server(n.Frontend(t, plan.ClusterIP, plan.TCP, false), echo(t, n))
	v.Audience = plan.Internal
	outside := netnstest.Server(v.Addr) // without backends
	outside.Audience = plan.External
	netnstest.Program(t, p, v, outside)
	knock(t, n, v.Addr)
	sources := n.Sources()
	sources.Pods = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	netnstest.SetSources(t, p, sources)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := netip.AddrPortFrom(n.ClientAddr(dataplanetest.Inside, 1, false), 0)
	conn, err := n.Dial(ctx, dataplanetest.Inside, client, plan.TCP, v.Addr)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("got %v, want a refusal", err)
	}
}

// TestLostSourcesComeBack removes the pod ranges from the kernel. Reading the servers must restore
// them.
func TestLostSourcesComeBack(t *testing.T) {
	n, p := start(t)
	v := netnstest.Server(n.Frontend(t, plan.ClusterIP, plan.TCP, false), echo(t, n))
	v.Audience = plan.Internal
	outside := netnstest.Server(v.Addr) // without backends
	outside.Audience = plan.External
	netnstest.Program(t, p, v, outside)
	err := n.Node.Do(func() error {
		conn, err := google.New()
		if err != nil {
			return err
		}
		conn.FlushSet(&google.Set{Table: &google.Table{Name: "portolan-balancer", Family: google.TableFamilyIPv4}, Name: "pods"})
		return conn.Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
	netnstest.State(t, p)
	knock(t, n, v.Addr)
}

// TestLookingChangesNothing checks that reading intact servers of each kind does not change the
// ruleset.
func TestLookingChangesNothing(t *testing.T) {
	n, p := start(t)
	backends := []netip.AddrPort{echo(t, n), echo(t, n), echo(t, n)}
	slices.SortFunc(backends, netip.AddrPort.Compare)
	var added []*plan.VirtualServer
	for i, change := range []func(v *plan.VirtualServer){
		func(*plan.VirtualServer) {},
		func(v *plan.VirtualServer) { v.Affinity = time.Hour },
		func(v *plan.VirtualServer) { v.Affinity, v.Audience = time.Hour, plan.External },
		func(v *plan.VirtualServer) { v.Affinity, v.Reals = time.Hour, nil },
		func(v *plan.VirtualServer) { v.Affinity, v.Reals[0].Weight = time.Hour, 0 },
		func(v *plan.VirtualServer) { v.Scheduler, v.Flags = plan.Maglev, plan.HashPort },
		func(v *plan.VirtualServer) { v.Reals[0].Weight, v.Reals[1].Weight = 0, 3 },
	} {
		v := netnstest.Server(n.Frontend(t, plan.ClusterIP, plan.TCP, false), backends[:2+i%2]...)
		change(v)
		added = append(added, v)
	}
	netnstest.Program(t, p, added...)
	knock(t, n, added[0].Addr)
	before := generation(t, n)
	if got := netnstest.State(t, p); len(got.Servers) != len(added) {
		t.Errorf("%d servers, want %d", len(got.Servers), len(added))
	}
	if after := generation(t, n); after != before {
		t.Errorf("generation %d of the ruleset, %d before", after, before)
	}
}

// TestReadingDuringAResize checks that a reading finds all servers and repairs nothing after large
// changes. The kernel then resizes its hash tables, and the lists that it returns meanwhile may lack
// elements. That happens in few rounds only, and hardly without traffic.
func TestReadingDuringAResize(t *testing.T) {
	n, p := start(t)
	busy := netnstest.Server(n.Frontend(t, plan.NodePort, plan.TCP, false), echo(t, n))
	stay := []*plan.VirtualServer{busy}
	var come []*plan.VirtualServer
	var leave []plan.Frontend
	for i, v := range netnstest.Servers(460, 2) {
		v.Drain = 0
		if i < 60 {
			stay = append(stay, v)
			continue
		}
		come, leave = append(come, v), append(leave, v.Frontend)
	}
	netnstest.Program(t, p, stay...)
	for range 3 {
		go ask(t, n, busy.Addr)
	}
	for i := range 80 {
		changed, want := dataplanetest.Changes(come...), len(stay)+len(come)
		if i%2 == 1 {
			changed, want = dataplanetest.Removal(leave...), len(stay)
		}
		netnstest.Apply(t, p, changed)
		before := generation(t, n)
		got := len(netnstest.State(t, p).Servers)
		if after := generation(t, n); got != want || after != before {
			t.Fatalf("change %d: %d servers read, want %d; generation %d of the ruleset, %d before", i, got, want, after, before)
		}
	}
}

// ask opens connections from the node until the test ends.
func ask(t *testing.T, n *netnstest.Network, at netip.AddrPort) {
	_ = n.Node.Do(func() error {
		dialer := net.Dialer{Timeout: patience}
		for t.Context().Err() == nil {
			conn, err := dialer.DialContext(t.Context(), "tcp", at.String())
			if err == nil {
				conn.(*net.TCPConn).SetLinger(0) //nolint:errcheck // it keeps the table of connections small
				conn.Close()
			}
		}
		return nil
	})
}

// generation returns the number of the last nftables transaction in the node's namespace.
func generation(t *testing.T, n *netnstest.Network) uint32 {
	t.Helper()
	var replies []netlink.Message
	err := n.Node.Do(func() error {
		conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		replies, err = conn.Execute(netlink.Message{
			Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
			Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	attributes, err := netlink.NewAttributeDecoder(replies[0].Data[4:])
	if err != nil {
		t.Fatal(err)
	}
	attributes.ByteOrder = binary.BigEndian
	for attributes.Next() {
		if attributes.Type() == unix.NFTA_GEN_ID {
			return attributes.Uint32()
		}
	}
	t.Fatalf("the kernel tells no generation: %v", attributes.Err())
	return 0
}

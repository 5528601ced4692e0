package ipvs_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/nftables"

	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// TestRestartBesideOtherNamespaces checks that no server counts as changed because the kernel's
// list of all servers omits some while other namespaces have servers too.
func TestRestartBesideOtherNamespaces(t *testing.T) {
	n, p := start(t)
	servers := netnstest.Servers(400, 3)
	others := netnstest.NewNetwork(t)
	if err := newFloor(t, others.Node.Path, servers, 64).send(); err != nil {
		t.Fatal(err)
	}
	netnstest.Program(t, p, servers...)
	before := netnstest.State(t, p)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	next := openPlane(t, n)
	if drift := plan.Diff(before, netnstest.State(t, next)); len(drift) > 0 {
		t.Errorf("%d differences, such as %s", len(drift), drift[0])
	}
	netnstest.Program(t, next, servers...)
}

// TestForeignChangesAreUndone checks that changes of the packet filter by another program are
// reverted at once, without an audit.
func TestForeignChangesAreUndone(t *testing.T) {
	n, p := start(t)
	v := netnstest.Server(netip.MustParseAddrPort("10.96.3.3:80"), netip.MustParseAddrPort("10.64.3.3:8080"))
	netnstest.Program(t, p, v)
	var conn *nftables.Conn
	err := n.Node.Do(func() (err error) {
		conn, err = nftables.New(nftables.AsLasting())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseLasting() //nolint:errcheck // the test is over
	table := &nftables.Table{Name: "portolan", Family: nftables.TableFamilyIPv4}
	elements := func() (int, error) {
		set, err := conn.GetSetByName(table, "masquerade-tcp")
		if err != nil {
			return 0, err
		}
		list, err := conn.GetSetElements(set)
		return len(list), err
	}
	if n, err := elements(); err != nil || n != 1 {
		t.Fatalf("%d elements, %v", n, err)
	}
	for name, harm := range map[string]func(){
		"table deleted": func() { conn.DelTable(table) },
		"set flushed": func() {
			conn.FlushSet(&nftables.Set{Table: table, Name: "masquerade-tcp"})
		},
	} {
		harm()
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		kittest.Eventually(t, name+" to be undone", func() error {
			if n, err := elements(); err != nil || n != 1 {
				return fmt.Errorf("%d elements, %w", n, err)
			}
			return nil
		})
	}
}

package netnstest

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/kerneltest/topology"
)

// inventory is the Inventory of the node's namespace.
func (n *Network) inventory(t testing.TB) map[string]bool {
	t.Helper()
	lines, err := Inventory(n.Node)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// Inventory lists everything in a namespace that forwarding depends on, one line each: tables with
// their chains and sets, addresses, routes, routing rules, and virtual servers. The kernel leaves
// entries out of a list without an error if the list changes meanwhile, so a reading counts only if
// the next one is equal.
func Inventory(ns *topology.Namespace) (map[string]bool, error) {
	before, err := readInventory(ns)
	for range 10 {
		if err != nil {
			return nil, err
		}
		var lines map[string]bool
		if lines, err = readInventory(ns); err == nil && maps.Equal(lines, before) {
			return lines, nil
		}
		before = lines
	}
	return nil, errors.New("the tables of the namespace change all the time")
}

func readInventory(ns *topology.Namespace) (map[string]bool, error) {
	lines := map[string]bool{}
	note := func(format string, args ...any) { lines[fmt.Sprintf(format, args...)] = true }
	return lines, ns.Do(func() error {
		return errors.Join(noteTables(note), noteRoutes(note), noteServers(note))
	})
}

func noteTables(note func(string, ...any)) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	tables, err := conn.ListTables()
	if err != nil {
		return err
	}
	for _, table := range tables {
		name := fmt.Sprintf("table %d %s", table.Family, table.Name)
		note("%s", name)
		sets, err := conn.GetSets(table)
		if err != nil {
			return err
		}
		for _, s := range sets {
			elements, err := conn.GetSetElements(s)
			if err != nil {
				return err
			}
			note("%s, set %s of %d", name, s.Name, len(elements))
		}
	}
	chains, err := conn.ListChains()
	for _, c := range chains {
		note("table %d %s, chain %s", c.Table.Family, c.Table.Name, c.Name)
	}
	return err
}

func noteRoutes(note func(string, ...any)) error {
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for i := range addrs {
		if addrs[i].IP.IsLinkLocalUnicast() { // the kernel adds and removes these by itself
			continue
		}
		note("address %s on %d", addrs[i].IPNet, addrs[i].LinkIndex)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return err
		}
		for _, r := range routes {
			// The kernel adds these by itself, too.
			own := family == netlink.FAMILY_V6 && r.LinkIndex != lo.Attrs().Index
			if !own && (r.Type == unix.RTN_LOCAL || r.Type == unix.RTN_UNICAST) {
				note("route of type %d to %s via %s on %d in table %d", r.Type, r.Dst, r.Gw, r.LinkIndex, r.Table)
			}
		}
		rules, err := netlink.RuleList(family)
		if err != nil {
			return err
		}
		for _, r := range rules {
			note("rule %s", r)
		}
	}
	return nil
}

// noteServers notes the virtual servers of IPVS and their backends if the kernel has it.
func noteServers(note func(string, ...any)) error {
	text, err := os.ReadFile("/proc/thread-self/net/ip_vs")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	server := ""
	for line := range strings.Lines(string(text)) {
		kind, rest, _ := strings.Cut(line, " ")
		fields := strings.Fields(line)
		switch {
		case kind == "TCP" || kind == "UDP" || kind == "SCTP":
			server = kind + " " + strings.TrimSpace(rest)
			note("virtual server %s", server)
		case server != "" && len(fields) > 3: // arrow, address, method, weight, and counts of connections
			note("virtual server %s, backend %s", server, strings.Join(fields[1:4], " "))
		}
	}
	return err
}

// Foreign sets up the state of another program that forwards.
func (n *Network) Foreign(t testing.TB) {
	t.Helper()
	err := n.Node.Do(func() error { return errors.Join(foreignTable(), foreignRoute()) })
	if err != nil {
		t.Fatal(err)
	}
}

// RemoveForeign removes the other program's state from a node that outlives the test.
func (n *Network) RemoveForeign(t testing.TB) {
	t.Helper()
	if err := n.Node.Do(removeForeign); err != nil {
		t.Error(err)
	}
}

func foreignTable() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	table := conn.AddTable(theirs)
	chain := conn.AddChain(&nftables.Chain{
		Name: "theirs", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Counter{}}})
	set := &nftables.Set{Name: "theirs", Table: table, KeyType: nftables.TypeIPAddr}
	if err := conn.AddSet(set, []nftables.SetElement{{Key: []byte{198, 51, 100, 1}}}); err != nil {
		return err
	}
	return conn.Flush()
}

func foreignRoute() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrReplace(lo, theirAddr), netlink.RouteReplace(theirRoute(lo)))
}

func removeForeign() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.AddrDel(lo, theirAddr); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	if err := netlink.RouteDel(theirRoute(lo)); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	conn.AddTable(theirs) // so that DelTable finds one
	conn.DelTable(theirs)
	return conn.Flush()
}

// The state of another program.
var (
	theirs    = &nftables.Table{Name: "theirs", Family: nftables.TableFamilyIPv4}
	theirAddr = &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(198, 51, 100, 2), Mask: net.CIDRMask(32, 32)}}
)

func theirRoute(lo netlink.Link) *netlink.Route {
	return &netlink.Route{
		Dst: &net.IPNet{IP: net.IPv4(198, 51, 100, 128), Mask: net.CIDRMask(25, 32)}, LinkIndex: lo.Attrs().Index,
		Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST,
	}
}

// Differences returns how an inventory differs from an earlier one, in order.
func Differences(before, now map[string]bool) []string {
	var differences []string
	for thing := range now {
		if !before[thing] {
			differences = append(differences, "more: "+thing)
		}
	}
	for thing := range before {
		if !now[thing] {
			differences = append(differences, "less: "+thing)
		}
	}
	slices.Sort(differences)
	return differences
}

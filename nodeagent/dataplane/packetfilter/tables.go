package packetfilter

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/netfilter"
)

// Tables are the plane's tables as read from the kernel.
type Tables struct {
	// structure has a line for each table, chain and rule, in the kernel's form.
	structure []string
	elements  map[Element]struct{}
	bridged   host.Bridged
}

// ReadTables reads the tables of a namespace. It uses no Filter, so a Filter may change during the
// read.
func ReadTables(netns string) (*Tables, error) {
	t := &Tables{bridged: host.ReadBridged(netns)}
	return t, netfilter.ReadLists(netns, func(conn *netlink.Conn) error {
		t.structure, t.elements = nil, map[Element]struct{}{}
		for _, v6 := range []bool{false, true} {
			if err := errors.Join(t.readStructure(conn, v6), t.readElements(conn, v6)); err != nil {
				return err
			}
		}
		return nil
	})
}

// readStructure reads all but the elements.
func readStructure(netns string) ([]string, error) {
	t := &Tables{}
	err := netfilter.ReadLists(netns, func(conn *netlink.Conn) error {
		t.structure = nil
		return errors.Join(t.readStructure(conn, false), t.readStructure(conn, true))
	})
	return t.structure, err
}

func familyOf(v6 bool) byte {
	if v6 {
		return unix.NFPROTO_IPV6
	}
	return unix.NFPROTO_IPV4
}

// readStructure reads the table, chains and rules of one family. It is no error if there are none.
func (t *Tables) readStructure(conn *netlink.Conn, v6 bool) error {
	family := familyOf(v6)
	structures := []struct {
		message netlink.HeaderType
		kinds   []uint16 // the attributes that do not vary between reads
	}{
		{unix.NFT_MSG_GETTABLE, []uint16{unix.NFTA_TABLE_NAME, unix.NFTA_TABLE_FLAGS}},
		{unix.NFT_MSG_GETCHAIN, []uint16{unix.NFTA_CHAIN_NAME, unix.NFTA_CHAIN_HOOK, unix.NFTA_CHAIN_POLICY, unix.NFTA_CHAIN_TYPE}},
		{unix.NFT_MSG_GETRULE, []uint16{unix.NFTA_RULE_CHAIN, unix.NFTA_RULE_EXPRESSIONS}},
	}
	for _, s := range structures {
		err := netfilter.ReadList(conn, netfilter.List{Message: s.message, Family: family, Table: filterTable}, func(body []byte) {
			line := []string{fmt.Sprint(family, s.message)}
			for kind, value := range netfilter.Attributes(body) {
				if slices.Contains(s.kinds, kind) {
					line = append(line, string(value))
				}
			}
			t.structure = append(t.structure, strings.Join(line, " "))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readElements reads the sets of one family. It is no error if there are none.
func (t *Tables) readElements(conn *netlink.Conn, v6 bool) error {
	for name := range newTable(filterTable, v6).sets {
		if name == hairpinSet || name == turnSet { // packets fill these sets
			continue
		}
		err := netfilter.ReadElements(conn, familyOf(v6), filterTable, string(name), func(m netfilter.Member) { t.addElement(m, name, v6) })
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// addElement stores an element of a set.
func (t *Tables) addElement(m netfilter.Member, set Set, v6 bool) {
	e := Element{V6: v6, Set: set, Key: string(m.Key), End: string(m.End), Value: string(m.Value)}
	switch {
	case m.Chain != "":
		e.Value = m.Chain
	case m.EndsInterval:
		e.Value = intervalEnd
		if strings.Trim(e.Key, "\x00") == "" {
			return // the space before the first range, which some kernels report
		}
	}
	t.elements[e] = struct{}{}
}

// intervalEnd is the value of an element that ends a range.
const intervalEnd = "end of a range"

// differences describes the differences from other tables.
func (t *Tables) differences(want *Tables) []string {
	var out []string
	if !slices.Equal(t.structure, want.structure) {
		out = append(out, fmt.Sprintf("table %s: rules have been changed", filterTable))
	}
	if t.bridged != want.bridged {
		out = append(out, fmt.Sprintf("table %s: whether bridged packets pass it has changed", filterTable))
	}
	missing, added := map[Set]int{}, map[Set]int{}
	for e := range want.elements {
		if _, ok := t.elements[e]; !ok {
			missing[e.Set]++
		}
	}
	for e := range t.elements {
		if _, ok := want.elements[e]; !ok {
			added[e.Set]++
		}
	}
	sets := slices.Collect(maps.Keys(missing))
	for s := range added {
		if missing[s] == 0 {
			sets = append(sets, s)
		}
	}
	slices.Sort(sets)
	for _, s := range sets {
		out = append(out, fmt.Sprintf("table %s: set %s lacks %d elements and has %d that are not ours", filterTable, s, missing[s], added[s]))
	}
	return out
}

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Tables are what the kernel has of our tables.
type Tables struct {
	// structure has a line for each table, chain and rule, in the kernel's form.
	structure []string
	elements  map[Element]struct{}
}

// ReadTables reads the tables of a namespace. It is of no concern to a Filter,
// which may be changed meanwhile.
func ReadTables(netns string) (*Tables, error) {
	t := &Tables{}
	return t, readTables(netns, func(conn *netlink.Conn) error {
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
	err := readTables(netns, func(conn *netlink.Conn) error {
		t.structure = nil
		return errors.Join(t.readStructure(conn, false), t.readStructure(conn, true))
	})
	return t.structure, err
}

// readTables reads, again if something changes meanwhile.
func readTables(netns string, read func(*netlink.Conn) error) error {
	var conn *netlink.Conn
	err := Within(netns, func() (err error) {
		conn, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("packet filter: %w", err)
	}
	defer conn.Close()
	conn.SetReadBuffer(4 << 20) //nolint:errcheck // it only helps
	for range 5 {
		if err = read(conn); !errors.Is(err, errTablesChanged) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("packet filter: %w", err)
	}
	return nil
}

var errTablesChanged = errors.New("changed while it was read")

// attribute is an attribute of the kernel's tables. The lists that are read here
// number them all alike.
type attribute struct {
	kind  uint16
	value []byte
}

func attributesOf(b []byte) []attribute {
	var out []attribute
	for len(b) >= 4 {
		size := int(binary.NativeEndian.Uint16(b))
		if size < 4 || size > len(b) {
			break
		}
		out = append(out, attribute{binary.NativeEndian.Uint16(b[2:]) & 0x3fff, b[4:size]})
		b = b[min((size+3)&^3, len(b)):]
	}
	return out
}

func attributeOf(b []byte, kind uint16) []byte {
	for _, a := range attributesOf(b) {
		if a.kind == kind {
			return a.value
		}
	}
	return nil
}

func textOf(b []byte) string { return strings.TrimRight(string(b), "\x00") }

func familyOf(v6 bool) byte {
	if v6 {
		return unix.NFPROTO_IPV6
	}
	return unix.NFPROTO_IPV4
}

// readStructure reads table, chains and rules of one family; none is no error.
func (t *Tables) readStructure(conn *netlink.Conn, v6 bool) error {
	family := familyOf(v6)
	structures := []struct {
		message netlink.HeaderType
		kinds   []uint16 // what is not the same each time is left out
	}{
		{unix.NFT_MSG_GETTABLE, []uint16{unix.NFTA_TABLE_NAME, unix.NFTA_TABLE_FLAGS}},
		{unix.NFT_MSG_GETCHAIN, []uint16{unix.NFTA_CHAIN_NAME, unix.NFTA_CHAIN_HOOK, unix.NFTA_CHAIN_POLICY, unix.NFTA_CHAIN_TYPE}},
		{unix.NFT_MSG_GETRULE, []uint16{unix.NFTA_RULE_CHAIN, unix.NFTA_RULE_EXPRESSIONS}},
	}
	for _, s := range structures {
		err := dump(conn, s.message, family, "", func(body []byte) {
			line := []string{fmt.Sprint(family, s.message)}
			for _, a := range attributesOf(body) {
				if slices.Contains(s.kinds, a.kind) {
					line = append(line, string(a.value))
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

// readElements reads the sets of one family; none is no error.
func (t *Tables) readElements(conn *netlink.Conn, v6 bool) error {
	family := familyOf(v6)
	for name := range newTable(filterTable, v6).sets {
		if name == loopSet { // packets fill it
			continue
		}
		err := dump(conn, unix.NFT_MSG_GETSETELEM, family, string(name), func(body []byte) {
			for _, e := range attributesOf(attributeOf(body, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
				t.element(e.value, name, v6)
			}
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// element takes in an element of a set.
func (t *Tables) element(b []byte, set Set, v6 bool) {
	e := Element{V6: v6, Set: set}
	for _, a := range attributesOf(b) {
		switch a.kind {
		case unix.NFTA_SET_ELEM_KEY:
			e.Key = string(attributeOf(a.value, unix.NFTA_DATA_VALUE))
		case keyEnd:
			e.End = string(attributeOf(a.value, unix.NFTA_DATA_VALUE))
		case unix.NFTA_SET_ELEM_FLAGS:
			if binary.BigEndian.Uint32(a.value)&unix.NFT_SET_ELEM_INTERVAL_END != 0 {
				e.Value = intervalEnd
			}
		case unix.NFTA_SET_ELEM_DATA:
			e.Value = string(attributeOf(a.value, unix.NFTA_DATA_VALUE))
			if v := attributeOf(a.value, unix.NFTA_DATA_VERDICT); v != nil {
				e.Value = textOf(attributeOf(v, unix.NFTA_VERDICT_CHAIN))
			}
		}
	}
	if e.Value == intervalEnd && strings.Trim(e.Key, "\x00") == "" {
		return // the space before the first range, which some kernels report
	}
	t.elements[e] = struct{}{}
}

const (
	keyEnd      = 10 // NFTA_SET_ELEM_KEY_END
	intervalEnd = "end of a range"
)

// dump hands the messages about our table of a family to fn.
func dump(conn *netlink.Conn, message netlink.HeaderType, family byte, set string, fn func(body []byte)) error {
	list := []netlink.Attribute{{Type: unix.NFTA_RULE_TABLE, Data: []byte(filterTable + "\x00")}}
	if set != "" {
		list = append(list, netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: []byte(set + "\x00")})
	}
	attrs, err := netlink.MarshalAttributes(list)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(nftablesPatience)); err != nil {
		return err
	}
	if message == unix.NFT_MSG_GETTABLE || message == unix.NFT_MSG_GETCHAIN {
		attrs = nil // a list of these is always of all
	}
	const subsystem = netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES << 8)
	found, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: subsystem | message, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{family, unix.NFNETLINK_V0, 0, 0}, attrs...),
	})
	if err != nil {
		return err
	}
	for _, m := range found {
		if m.Header.Flags&netlink.DumpInterrupted != 0 {
			return errTablesChanged
		}
	}
	for _, m := range found {
		// The name of its table is the first attribute of everything.
		if len(m.Data) > 4 && m.Data[0] == family && textOf(attributeOf(m.Data[4:], unix.NFTA_RULE_TABLE)) == filterTable {
			fn(m.Data[4:])
		}
	}
	return nil
}

// differences tells in words how the tables differ from others.
func (t *Tables) differences(want *Tables) []string {
	var out []string
	if !slices.Equal(t.structure, want.structure) {
		out = append(out, fmt.Sprintf("table %s: rules have been changed", filterTable))
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

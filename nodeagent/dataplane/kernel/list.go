package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Member is an element of a set as read from the kernel. Its slices must not be kept.
type Member struct {
	Key, End, Value []byte
	Chain           string        // in a map to verdicts
	EndsInterval    bool          // it is the address after a range
	Expires         time.Duration // from now; 0: never
	Counts          bool          // whether it has a counter
	Packets         uint64        // number of packets that were counted
}

// Attributes of elements that package unix lacks.
const (
	elementKeyEnd      = 10 // NFTA_SET_ELEM_KEY_END
	elementExpressions = 11 // NFTA_SET_ELEM_EXPRESSIONS
)

var errTablesChanged = errors.New("changed while it was read")

// readLists reads lists of nftables. If the tables change during the read, it calls read again,
// which must start from nothing each time. Each call has its own socket, because after an error
// answers may be left on the socket.
func readLists(netns string, read func(*netlink.Conn) error) error {
	var conn *netlink.Conn
	err := Within(netns, func() (err error) {
		conn, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	defer conn.Close()
	conn.SetReadBuffer(4 << 20) //nolint:errcheck // it only helps
	for range 5 {
		if err = read(conn); !errors.Is(err, errTablesChanged) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// list selects the objects to read from a table: chains, rules or, with a set, elements.
type list struct {
	message    netlink.HeaderType
	family     byte
	table, set string
}

// readList calls fn with each object of a list, after it has checked that the whole list is
// consistent.
func readList(conn *netlink.Conn, l list, fn func(body []byte)) error {
	asked := []netlink.Attribute{{Type: unix.NFTA_RULE_TABLE, Data: []byte(l.table + "\x00")}}
	if l.set != "" {
		asked = append(asked, netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: []byte(l.set + "\x00")})
	}
	if l.message == unix.NFT_MSG_GETTABLE || l.message == unix.NFT_MSG_GETCHAIN {
		asked = nil // these lists always contain all tables
	}
	attrs, err := netlink.MarshalAttributes(asked)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(nftablesPatience)); err != nil {
		return err
	}
	const subsystem = netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES << 8)
	found, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: subsystem | l.message, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{l.family, unix.NFNETLINK_V0, 0, 0}, attrs...),
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
		// The first attribute of every object is the name of its table.
		if len(m.Data) > 4 && m.Data[0] == l.family && textOf(attributeOf(m.Data[4:], unix.NFTA_RULE_TABLE)) == l.table {
			fn(m.Data[4:])
		}
	}
	return nil
}

// readElements calls fn with the elements of a set. If the set does not exist, the error is
// os.ErrNotExist.
func readElements(conn *netlink.Conn, family byte, table, set string, fn func(Member)) error {
	return readList(conn, list{unix.NFT_MSG_GETSETELEM, family, table, set}, func(body []byte) {
		for _, element := range attributes(attributeOf(body, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
			fn(memberOf(element))
		}
	})
}

func memberOf(element []byte) (m Member) {
	for kind, value := range attributes(element) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			m.Key = attributeOf(value, unix.NFTA_DATA_VALUE)
		case elementKeyEnd:
			m.End = attributeOf(value, unix.NFTA_DATA_VALUE)
		case unix.NFTA_SET_ELEM_FLAGS:
			m.EndsInterval = len(value) == 4 && binary.BigEndian.Uint32(value)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case unix.NFTA_SET_ELEM_DATA:
			m.Value = attributeOf(value, unix.NFTA_DATA_VALUE)
			if v := attributeOf(value, unix.NFTA_DATA_VERDICT); v != nil {
				m.Chain = textOf(attributeOf(v, unix.NFTA_VERDICT_CHAIN))
			}
		case unix.NFTA_SET_ELEM_EXPIRATION:
			m.Expires = time.Duration(number64(value)) * time.Millisecond
		case unix.NFTA_SET_ELEM_EXPR:
			m.count(value)
		case elementExpressions:
			for _, expression := range attributes(value) {
				m.count(expression)
			}
		}
	}
	return m
}

// count reads an expression of the element if it is a counter.
func (m *Member) count(expression []byte) {
	if textOf(attributeOf(expression, unix.NFTA_EXPR_NAME)) == "counter" {
		m.Counts = true
		m.Packets = number64(attributeOf(attributeOf(expression, unix.NFTA_EXPR_DATA), unix.NFTA_COUNTER_PACKETS))
	}
}

func number64(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// attributes returns the attributes in a message about nftables. The lists that are read here use
// the same numbers for them.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= 4 {
			size := int(binary.NativeEndian.Uint16(b))
			if size < 4 || size > len(b) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(b[2:])&0x3fff, b[4:size]) {
				return
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

// attributeOf returns the first attribute of a kind, or nil.
func attributeOf(b []byte, kind uint16) []byte {
	for k, value := range attributes(b) {
		if k == kind {
			return value
		}
	}
	return nil
}

func textOf(b []byte) string { return strings.TrimRight(string(b), "\x00") }

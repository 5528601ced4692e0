package netfilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/host"
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

// The attributes of elements that package unix lacks.
const (
	elementKeyEnd      = 10 // NFTA_SET_ELEM_KEY_END
	elementExpressions = 11 // NFTA_SET_ELEM_EXPRESSIONS
)

var errTablesChanged = errors.New("changed while it was read")

// ReadLists reads lists of nftables. If the tables change during the read, it calls read again,
// which must start from nothing each time. Each call has its own socket, because after an error
// answers may be left on the socket.
func ReadLists(netns string, read func(*netlink.Conn) error) error {
	var conn *netlink.Conn
	err := host.Within(netns, func() (err error) {
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

// HasTable reports whether a namespace has a table with one of these names, in the family ip or ip6.
func HasTable(netns string, names ...string) (has bool, err error) {
	return has, ReadLists(netns, func(conn *netlink.Conn) error {
		has = false
		for _, family := range []byte{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6} {
			for _, name := range names {
				err := ReadList(conn, List{Message: unix.NFT_MSG_GETTABLE, Family: family, Table: name}, func([]byte) { has = true })
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// List selects the objects to read from a table: chains, rules or, with a set, elements.
type List struct {
	Message    netlink.HeaderType
	Family     byte
	Table, Set string
}

// ReadList calls fn with each object of a list, after it has checked that the whole list is
// consistent.
func ReadList(conn *netlink.Conn, l List, fn func(body []byte)) error {
	asked := []netlink.Attribute{{Type: unix.NFTA_RULE_TABLE, Data: []byte(l.Table + "\x00")}}
	if l.Set != "" {
		asked = append(asked, netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: []byte(l.Set + "\x00")})
	}
	if l.Message == unix.NFT_MSG_GETTABLE || l.Message == unix.NFT_MSG_GETCHAIN {
		asked = nil // these lists always contain all tables
	}
	attrs, err := netlink.MarshalAttributes(asked)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	const subsystem = netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES << 8)
	found, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: subsystem | l.Message, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{l.Family, unix.NFNETLINK_V0, 0, 0}, attrs...),
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
		if len(m.Data) > 4 && m.Data[0] == l.Family && Text(Attribute(m.Data[4:], unix.NFTA_RULE_TABLE)) == l.Table {
			fn(m.Data[4:])
		}
	}
	return nil
}

// ReadElements calls fn with the elements of a set. If the set does not exist, the error is
// os.ErrNotExist.
func ReadElements(conn *netlink.Conn, family byte, table, set string, fn func(Member)) error {
	return ReadList(conn, List{Message: unix.NFT_MSG_GETSETELEM, Family: family, Table: table, Set: set}, func(body []byte) {
		for _, element := range Attributes(Attribute(body, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
			fn(memberOf(element))
		}
	})
}

func memberOf(element []byte) (m Member) {
	for kind, value := range Attributes(element) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			m.Key = Attribute(value, unix.NFTA_DATA_VALUE)
		case elementKeyEnd:
			m.End = Attribute(value, unix.NFTA_DATA_VALUE)
		case unix.NFTA_SET_ELEM_FLAGS:
			m.EndsInterval = len(value) == 4 && binary.BigEndian.Uint32(value)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case unix.NFTA_SET_ELEM_DATA:
			m.Value = Attribute(value, unix.NFTA_DATA_VALUE)
			if v := Attribute(value, unix.NFTA_DATA_VERDICT); v != nil {
				m.Chain = Text(Attribute(v, unix.NFTA_VERDICT_CHAIN))
			}
		case unix.NFTA_SET_ELEM_EXPIRATION:
			const longest = uint64(math.MaxInt64 / time.Millisecond)
			m.Expires = time.Duration(min(number64(value), longest)) * time.Millisecond
		case unix.NFTA_SET_ELEM_EXPR:
			m.count(value)
		case elementExpressions:
			for _, expression := range Attributes(value) {
				m.count(expression)
			}
		}
	}
	return m
}

// count reads an expression of the element if it is a counter.
func (m *Member) count(expression []byte) {
	if Text(Attribute(expression, unix.NFTA_EXPR_NAME)) == "counter" {
		m.Counts = true
		m.Packets = number64(Attribute(Attribute(expression, unix.NFTA_EXPR_DATA), unix.NFTA_COUNTER_PACKETS))
	}
}

func number64(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Attributes returns the attributes in a message about nftables. The lists that are read here use
// the same numbers for them.
func Attributes(b []byte) iter.Seq2[uint16, []byte] {
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

// Attribute returns the first attribute of a kind, or nil.
func Attribute(b []byte, kind uint16) []byte {
	for k, value := range Attributes(b) {
		if k == kind {
			return value
		}
	}
	return nil
}

// Text returns the text of an attribute, without its terminating zero.
func Text(b []byte) string { return strings.TrimRight(string(b), "\x00") }

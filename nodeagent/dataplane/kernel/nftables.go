package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// nftablesPatience is how long the kernel may take for an answer about nftables.
const nftablesPatience = 15 * time.Second

// Nftables is a socket for transactions of any size.
type Nftables struct {
	*nftables.Conn
	sock  *netlink.Conn
	netns string
}

// DialNftables opens a socket in a namespace.
func DialNftables(netns string) (*Nftables, error) {
	n := &Nftables{netns: netns}
	return n, n.dial()
}

func (n *Nftables) dial() error {
	options := func(c *netlink.Conn) error {
		n.sock = c
		return errors.Join(c.SetReadBuffer(16<<20), c.SetWriteBuffer(64<<20))
	}
	err := Within(n.netns, func() (err error) {
		n.Conn, err = nftables.New(nftables.AsLasting(), nftables.WithSockOptions(options))
		return err
	})
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// Flush sends what is queued as one transaction. After an error the socket is
// replaced: answers may be left on it.
func (n *Nftables) Flush() error {
	err := n.sock.SetDeadline(time.Now().Add(nftablesPatience))
	if err == nil {
		err = n.Conn.Flush()
	}
	if err == nil {
		return nil
	}
	n.CloseLasting() //nolint:errcheck // it is replaced
	return errors.Join(fmt.Errorf("nftables: %w", err), n.dial())
}

// Sources are the elements of a set of the prefixes of one family.
func Sources(prefixes []netip.Prefix, v6 bool) []nftables.SetElement { return ranges(prefixes, v6) }

// CountRules counts the rules of each chain of a table. It asks the kernel
// itself: the library cannot read all the rules that it can write.
func (n *Nftables) CountRules(t *nftables.Table) (map[string]int, error) {
	out := map[string]int{}
	err := n.list(unix.NFT_MSG_GETRULE, t, nil, func(attrs *netlink.AttributeDecoder) {
		if attrs.Type() == unix.NFTA_RULE_CHAIN {
			out[attrs.String()]++
		}
	})
	return out, err
}

// Elements hands the elements of a set to fn: their keys, and for those of maps
// their values or, of verdicts, the chains. A set that is not there is an error
// that is os.ErrNotExist.
func (n *Nftables) Elements(s *nftables.Set, fn func(key, value []byte, chain string)) error {
	set := []netlink.Attribute{{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: []byte(s.Name + "\x00")}}
	return n.list(unix.NFT_MSG_GETSETELEM, s.Table, set, func(list *netlink.AttributeDecoder) {
		if list.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			return
		}
		list.Nested(func(elements *netlink.AttributeDecoder) error {
			for elements.Next() {
				elements.Nested(func(e *netlink.AttributeDecoder) error { return element(e, fn) })
			}
			return nil
		})
	})
}

func element(e *netlink.AttributeDecoder, fn func(key, value []byte, chain string)) error {
	var key, value []byte
	var chain string
	data := func(into *[]byte) func(*netlink.AttributeDecoder) error {
		return func(d *netlink.AttributeDecoder) error {
			for d.Next() {
				switch d.Type() {
				case unix.NFTA_DATA_VALUE:
					*into = d.Bytes()
				case unix.NFTA_DATA_VERDICT:
					d.Nested(func(v *netlink.AttributeDecoder) error {
						for v.Next() {
							if v.Type() == unix.NFTA_VERDICT_CHAIN {
								chain = v.String()
							}
						}
						return nil
					})
				}
			}
			return nil
		}
	}
	for e.Next() {
		switch e.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			e.Nested(data(&key))
		case unix.NFTA_SET_ELEM_DATA:
			e.Nested(data(&value))
		}
	}
	fn(key, value, chain)
	return nil
}

// list reads a list of the kernel's, attribute by attribute. It is read on a
// socket of its own, since after an error answers may be left on it.
func (n *Nftables) list(kind netlink.HeaderType, t *nftables.Table, more []netlink.Attribute, fn func(*netlink.AttributeDecoder)) error {
	var conn *netlink.Conn
	err := Within(n.netns, func() (err error) {
		conn, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	defer conn.Close()
	// The name of the table is the first attribute of everything.
	attrs, err := netlink.MarshalAttributes(append([]netlink.Attribute{{Type: unix.NFTA_RULE_TABLE, Data: []byte(t.Name + "\x00")}}, more...))
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(nftablesPatience)); err != nil {
		return err
	}
	const subsystem = netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES << 8)
	found, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: subsystem | kind, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{byte(t.Family), unix.NFNETLINK_V0, 0, 0}, attrs...),
	})
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	for _, m := range found {
		if len(m.Data) < 4 {
			continue
		}
		decoder, err := netlink.NewAttributeDecoder(m.Data[4:])
		if err != nil {
			return fmt.Errorf("nftables: %w", err)
		}
		for decoder.Next() {
			fn(decoder)
		}
		if err := decoder.Err(); err != nil {
			return fmt.Errorf("nftables: %w", err)
		}
	}
	return nil
}

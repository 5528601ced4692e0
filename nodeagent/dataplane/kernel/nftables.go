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
	return out, readLists(n.netns, func(conn *netlink.Conn) error {
		clear(out)
		return readList(conn, list{unix.NFT_MSG_GETRULE, byte(t.Family), t.Name, ""}, func(body []byte) {
			out[textOf(attributeOf(body, unix.NFTA_RULE_CHAIN))]++
		})
	})
}

// Elements hands the elements of a set to fn. A set that is not there is an
// error that is os.ErrNotExist.
func (n *Nftables) Elements(s *nftables.Set, fn func(Member)) error {
	return readLists(n.netns, func(conn *netlink.Conn) error {
		return readElements(conn, byte(s.Table.Family), s.Table.Name, s.Name, fn)
	})
}

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

// nftablesPatience is the longest time that the kernel may take for an answer about nftables.
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

// Flush sends the queued messages as one transaction. After an error it replaces the socket,
// because answers may be left on it.
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

// Sources returns the elements of an interval set for the prefixes of one family.
func Sources(prefixes []netip.Prefix, v6 bool) []nftables.SetElement { return ranges(prefixes, v6) }

// CountRules counts the rules of each chain of a table. It reads them from the kernel itself,
// because the library cannot read all the rules that it can write.
func (n *Nftables) CountRules(t *nftables.Table) (map[string]int, error) {
	out := map[string]int{}
	return out, readLists(n.netns, func(conn *netlink.Conn) error {
		clear(out)
		return readList(conn, list{unix.NFT_MSG_GETRULE, byte(t.Family), t.Name, ""}, func(body []byte) {
			out[textOf(attributeOf(body, unix.NFTA_RULE_CHAIN))]++
		})
	})
}

// Elements calls fn with the elements of a set. If the set does not exist, the error is
// os.ErrNotExist.
func (n *Nftables) Elements(s *nftables.Set, fn func(Member)) error {
	return readLists(n.netns, func(conn *netlink.Conn) error {
		return readElements(conn, byte(s.Table.Family), s.Table.Name, s.Name, fn)
	})
}

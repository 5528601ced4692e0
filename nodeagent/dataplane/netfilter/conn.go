package netfilter

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/host"
)

// answerTimeout is the longest time that the kernel may take for an answer about nftables.
const answerTimeout = 15 * time.Second

// Conn is a socket for transactions of any size. The library makes the messages, and Conn sends them.
type Conn struct {
	*nftables.Conn
	sock  *netlink.Conn
	netns string
}

// Dial opens a socket in a namespace.
func Dial(netns string) (*Conn, error) {
	c := &Conn{netns: netns}
	return c, c.dial()
}

func (c *Conn) dial() error {
	var err error
	if c.Conn, err = nftables.New(nftables.AsLasting(), nftables.WithTestDial(c.exchange)); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	var sock *netlink.Conn
	err = host.Within(c.netns, func() (err error) {
		sock, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
	if err == nil {
		c.sock = sock
		err = errors.Join(sock.SetReadBuffer(16<<20), sock.SetWriteBuffer(64<<20))
	}
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// CloseLasting closes the socket.
func (c *Conn) CloseLasting() error {
	if c.sock == nil {
		return nil
	}
	return c.sock.Close()
}

// Flush sends the queued messages as one transaction. After an error it replaces the socket,
// because answers may be left on it.
func (c *Conn) Flush() error {
	err := c.sock.SetDeadline(time.Now().Add(answerTimeout))
	if err == nil {
		err = c.Conn.Flush()
	}
	if err == nil {
		return nil
	}
	c.CloseLasting() //nolint:errcheck // it is replaced
	return errors.Join(fmt.Errorf("nftables: %w", err), c.dial())
}

// PortID returns the netlink port of the socket, which the kernel's notifications contain. Flush may
// replace the socket, and the result is 0 if it could not.
func (c *Conn) PortID() uint32 {
	if c.sock == nil {
		return 0
	}
	return c.sock.PID()
}

// CountRules counts the rules of each chain of a table. It reads them from the kernel itself,
// because the library cannot read all the rules that it can write.
func (c *Conn) CountRules(t *nftables.Table) (map[string]int, error) {
	out := map[string]int{}
	return out, ReadLists(c.netns, func(conn *netlink.Conn) error {
		clear(out)
		return ReadList(conn, List{Message: unix.NFT_MSG_GETRULE, Family: byte(t.Family), Table: t.Name}, func(body []byte) {
			out[Text(Attribute(body, unix.NFTA_RULE_CHAIN))]++
		})
	})
}

// Elements calls fn with the elements of a set. If the set does not exist, the error is
// os.ErrNotExist.
func (c *Conn) Elements(s *nftables.Set, fn func(Member)) error {
	return ReadLists(c.netns, func(conn *netlink.Conn) error {
		return ReadElements(conn, byte(s.Table.Family), s.Table.Name, s.Name, fn)
	})
}

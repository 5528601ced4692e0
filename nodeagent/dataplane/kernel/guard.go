package kernel

import (
	"errors"
	"fmt"
	"os"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// guard receives the kernel's notifications and reports changes of the plane's state by other
// programs.
type guard struct {
	conn     *netlink.Conn
	concerns func(*netlink.Message) bool
	foreign  chan struct{} // receives a token
	over     chan struct{}
}

// newGuard subscribes, in a namespace, to groups of a netlink family (a bit each). The function
// concerns selects the relevant messages.
func newGuard(netns string, family int, groups uint32, concerns func(*netlink.Message) bool) (*guard, error) {
	g := &guard{concerns: concerns, foreign: make(chan struct{}, 1), over: make(chan struct{})}
	err := Within(netns, func() (err error) {
		g.conn, err = netlink.Dial(family, &netlink.Config{Groups: groups})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("news of the kernel: %w", err)
	}
	go g.listen()
	return g, nil
}

func (g *guard) close() {
	g.conn.Close()
	<-g.over
}

func (g *guard) listen() {
	defer close(g.over)
	for {
		messages, err := g.conn.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS): // notifications were lost
			g.tell()
			continue
		case errors.Is(err, os.ErrClosed), err != nil:
			return
		}
		for i := range messages {
			if g.concerns(&messages[i]) {
				g.tell()
				break
			}
		}
	}
}

func (g *guard) tell() {
	select {
	case g.foreign <- struct{}{}:
	default:
	}
}

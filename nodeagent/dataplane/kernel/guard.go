package kernel

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// guard hears from the kernel when somebody changes our tables.
type guard struct {
	conn    *netlink.Conn
	port    atomic.Uint32 // of the socket that we change them by
	foreign chan struct{}
	over    chan struct{}
}

func newGuard(netns string) (*guard, error) {
	g := &guard{foreign: make(chan struct{}, 1), over: make(chan struct{})}
	err := Within(netns, func() (err error) {
		g.conn, err = netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{Groups: 1 << (unix.NFNLGRP_NFTABLES - 1)})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("packet filter: %w", err)
	}
	go g.listen()
	return g, nil
}

// own says which socket's changes are ours.
func (g *guard) own(port uint32) { g.port.Store(port) }

func (g *guard) close() {
	g.conn.Close()
	<-g.over
}

func (g *guard) listen() {
	defer close(g.over)
	for {
		messages, err := g.conn.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS): // some were lost
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

// concerns tells whether a message is about a change of our tables by somebody
// else. The name of its table is the first attribute of everything there is.
func (g *guard) concerns(m *netlink.Message) bool {
	const newGeneration = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWGEN
	return m.Header.PID != g.port.Load() && m.Header.Type != newGeneration && len(m.Data) > 4 &&
		textOf(attributeOf(m.Data[4:], unix.NFTA_TABLE_NAME)) == filterTable
}

func (g *guard) tell() {
	select {
	case g.foreign <- struct{}{}:
	default:
	}
}

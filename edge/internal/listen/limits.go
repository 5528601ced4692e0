package listen

import (
	"container/list"
	"net"
	"net/netip"
	"sync"

	"portolan.dev/services/backends"
)

// connections counts the connections that are served. The zero value counts none.
type connections struct {
	mu       sync.Mutex
	total    int
	byClient map[netip.Addr]int
}

// add counts a connection of a client. If that would exceed a limit, it counts nothing and returns the reason.
func (c *connections) add(client netip.Addr, s *Settings) Reason {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.MaxConnections > 0 && c.total >= s.MaxConnections:
		return TooMany
	case s.MaxPerClient > 0 && c.byClient[client] >= s.MaxPerClient:
		return TooManyOf
	}
	if c.byClient == nil {
		c.byClient = map[netip.Addr]int{}
	}
	c.total++
	c.byClient[client]++ // also without a limit, because the settings may get a limit while it is open
	return ""
}

func (c *connections) remove(client netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if c.byClient[client]--; c.byClient[client] == 0 {
		delete(c.byClient, client)
	}
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// unfinished holds the connections with an unfinished handshake, the oldest first.
type unfinished struct {
	max int

	mu    sync.Mutex
	conns list.List
}

// place is the place of a connection in unfinished.
type place struct {
	conn    *net.TCPConn
	owner   *unfinished
	element *list.Element // nil: the connection was removed
	ended   Reason        // the reason why the connection was reset
}

// add adds a connection. If there are too many, it resets the oldest one.
func (u *unfinished) add(conn *net.TCPConn) *place {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conns.Len() >= u.max {
		u.reset(u.conns.Front().Value.(*place), Displaced)
	}
	p := &place{conn: conn, owner: u}
	p.element = u.conns.PushBack(p)
	return p
}

func (u *unfinished) reset(p *place, why Reason) {
	u.conns.Remove(p.element)
	p.element, p.ended = nil, why
	backends.Reset(p.conn)
}

func (u *unfinished) remove(p *place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p.element != nil {
		u.conns.Remove(p.element)
		p.element = nil
	}
}

// abort resets all connections.
func (u *unfinished) abort(why Reason) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.conns.Len() > 0 {
		u.reset(u.conns.Front().Value.(*place), why)
	}
}

// reason returns why the connection was reset, or "" if it was not.
func (p *place) reason() Reason {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	return p.ended
}

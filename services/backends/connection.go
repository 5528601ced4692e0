package backends

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// Connection is the session of a client's TCP connection, with the connection to its backend.
type Connection struct {
	client *net.TCPConn

	mu      sync.Mutex
	dial    context.CancelFunc // cancels the current dial; nil: none
	server  *net.TCPConn
	aborted bool
	broken  Side

	fromClient, fromServer direction
	ended                  atomic.Int32 // directions that have ended
}

var _ Session = (*Connection)(nil)

// NewConnection returns the session of a client's connection, without a backend.
func NewConnection(client *net.TCPConn) *Connection { return &Connection{client: client} }

// setDialCancel stores the function that cancels the dial that is about to begin.
func (c *Connection) setDialCancel(cancel context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dial = cancel
}

// BackendRemoved implements Session. It cancels the dial of a backend that was removed and may be
// dead, so that another one is tried. An established connection continues.
func (c *Connection) BackendRemoved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dial != nil {
		c.dial()
	}
}

// connected stores the connection to the backend and reports true. If the session was aborted before,
// it resets the connection to the backend instead.
func (c *Connection) connected(server *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dial = nil
	if c.aborted {
		Reset(server)
		return false
	}
	c.server = server
	return true
}

// Server returns the connection to the backend, or nil if there is none yet.
func (c *Connection) Server() *net.TCPConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// disconnected resets the connection to a backend that failed Target.Prepare.
func (c *Connection) disconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	Reset(c.server)
	c.server = nil
}

// Aborted reports whether Abort was called.
func (c *Connection) Aborted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted
}

// Broken returns the side that has broken the connection. It is NoSide if none has, as after a call of Abort.
func (c *Connection) Broken() Side {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// Abort implements Session. It resets both sides.
func (c *Connection) Abort() { c.abort(NoSide) }

// abort resets both sides, because one of them is broken. The first call decides which one.
func (c *Connection) abort(broken Side) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.aborted {
		c.broken = broken
	}
	c.aborted = true
	Reset(c.client)
	if c.server != nil {
		Reset(c.server)
	}
}

// Reset closes a connection with a reset, so that the peer can tell a broken stream from a complete
// one.
func Reset(conn *net.TCPConn) {
	conn.SetLinger(0) //nolint:errcheck // fails on connections that are gone already
	conn.Close()      //nolint:errcheck // as above
}

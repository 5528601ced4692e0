package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Connection is the session of a client's TCP connection, with the connection to its backend.
type Connection struct {
	client *net.TCPConn

	mu      sync.Mutex
	dial    context.CancelFunc // cancels the current dial; nil: none
	server  *net.TCPConn
	aborted bool
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

// Abort implements Session. It resets both sides.
func (c *Connection) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// Copy copies bytes in both directions until both have ended, then closes both sides. The end of one
// direction is passed on as a half-close. An error ends both with a reset.
func (c *Connection) Copy() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.copyOne(c.client, c.server)
	}()
	c.copyOne(c.server, c.client)
	<-done
	c.client.Close() //nolint:errcheck // both directions have ended
	c.server.Close() //nolint:errcheck // as above
}

// copyOne copies bytes in one direction. The kernel does it without copies to this process where it
// can (splice).
func (c *Connection) copyOne(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		c.Abort()
		return
	}
	if err := to.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) {
		c.Abort()
	}
}

package web

import (
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// link is a connection of the fast path to a backend. One goroutine uses it at a time.
type link struct {
	*net.TCPConn
	raw  syscall.RawConn
	idle time.Time // when it became idle
	// expired reports whether the sweeper has set a deadline, which no other request may get.
	expired bool
}

func newLink(conn *net.TCPConn) (*link, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &link{TCPConn: conn, raw: raw}, nil
}

// sweepEvery is the time between two searches for connections that backends have closed.
const sweepEvery = 5 * time.Second

// idleConns holds the idle connections to one backend.
type idleConns struct {
	timeout time.Duration

	mu     sync.Mutex
	links  []*link // ordered by the time of the last use
	closed bool
	timer  *time.Timer
}

// take removes and returns the connection that was used last, or returns nil.
func (c *idleConns) take() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.links)
	if n == 0 {
		return nil
	}
	l := c.links[n-1]
	c.links[n-1] = nil
	c.links = c.links[:n-1]
	return l
}

// put keeps a connection, or closes it if there are enough.
func (c *idleConns) put(l *link, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.links) >= maxIdlePerBackend {
		l.Close() //nolint:errcheck // nothing is under way
		return
	}
	l.idle = now
	c.links = append(c.links, l)
	if c.timer == nil {
		c.timer = time.AfterFunc(min(sweepEvery, c.timeout), c.sweep)
	}
}

// sweep closes connections that were idle for too long or that the backend has closed.
func (c *idleConns) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := time.Now().Add(-c.timeout)
	c.links = slices.DeleteFunc(c.links, func(l *link) bool {
		if l.idle.After(oldest) && alive(l.raw) {
			return false
		}
		l.Close() //nolint:errcheck // nothing is under way
		return true
	})
	c.timer = nil
	if len(c.links) > 0 {
		c.timer = time.AfterFunc(min(sweepEvery, c.timeout), c.sweep)
	}
}

// close closes all connections, and those that are put later.
func (c *idleConns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, l := range c.links {
		l.Close() //nolint:errcheck // nothing is under way
	}
	c.links = nil
	if c.timer != nil {
		c.timer.Stop()
	}
}

// deadline is an idle deadline of a connection. It is not moved while it is less than armEvery too early, because
// setting a timer costs time.
type deadline struct{ at time.Time }

// set returns the deadline to set for the time after from now, or false if the present deadline is good enough.
func (d *deadline) set(now time.Time, after time.Duration) (time.Time, bool) {
	want := now.Add(after)
	if early := want.Sub(d.at); early >= 0 && early < armEvery(after) {
		return want, false
	}
	d.at = want
	return want, true
}

// armEvery returns the shortest time between two moves of an idle deadline while bytes pass, because setting a timer
// for each read costs too much.
func armEvery(idle time.Duration) time.Duration { return min(time.Second, idle/4) }

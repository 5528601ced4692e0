package userspace

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"portolan.dev/services/kit/app"
)

// The timeouts of a dial. firstDial is short because there is another backend to try.
const (
	firstDial = time.Second
	lastDial  = 10 * time.Second
)

// accept accepts connections until the socket is closed.
func (f *frontend) accept(lis *net.TCPListener) {
	backoff := 5 * time.Millisecond
	for {
		conn, err := lis.AcceptTCP()
		switch {
		case err == nil:
			backoff = 5 * time.Millisecond
			f.plane.running.Go(func() { f.serve(conn) })
		case errors.Is(err, net.ErrClosed):
			return
		default: // mostly out of file descriptors: wait until connections have ended
			f.plane.opts.Log.Warn("accept", "frontend", f.key.String(), "err", err)
			if !app.Pause(f.plane.ctx, backoff) {
				return
			}
			backoff = min(2*backoff, time.Second)
		}
	}
}

// serve proxies one connection.
func (f *frontend) serve(client *net.TCPConn) {
	from, to := addrOf(client.RemoteAddr()), addrOf(client.LocalAddr())
	c := &connection{client: client}
	p := f.poolFor(from.Addr())
	if p == nil {
		f.plane.metrics.connections.WithLabelValues("denied").Inc()
		c.abort()
		return
	}
	b := f.connect(c, p, from, to)
	if b == nil {
		f.plane.metrics.connections.WithLabelValues("no_backend").Inc()
		c.abort()
		return
	}
	f.plane.metrics.connections.WithLabelValues("served").Inc()
	f.plane.metrics.active.Inc()
	c.copyBoth()
	f.plane.metrics.active.Dec()
	p.release(b, c, from.Addr())
}

// errBackendRemoved is the error of a dial that ended because the backend was removed.
var errBackendRemoved = errors.New("the backend leaves")

// connect dials backends until one answers, at most MaxAttempts. A backend that is removed during
// the dial does not count as a failed attempt, because it may come back and is dialled again then.
func (f *frontend) connect(c *connection, p *pool, from, to netip.AddrPort) *backend {
	var tried []*backend
	for len(tried) < f.plane.opts.MaxAttempts && f.plane.ctx.Err() == nil {
		b, err := f.attempt(c, p, from, to, tried)
		switch {
		case err == nil:
			return b
		case !errors.Is(err, errBackendRemoved):
			tried = append(tried, b)
		}
	}
	return nil
}

// attempt dials one of the backends that were not tried. It returns nil if there is none, or if the
// connection was aborted during the dial.
func (f *frontend) attempt(c *connection, p *pool, from, to netip.AddrPort, tried []*backend) (*backend, error) {
	ctx, cancel := context.WithCancel(f.plane.ctx)
	defer cancel()
	c.setDialCancel(cancel)
	b := p.pick(from, to, tried, c)
	if b == nil {
		return nil, nil
	}
	timeout := lastDial
	if tried := append(tried, b); len(tried) < f.plane.opts.MaxAttempts && p.hasUntried(tried) {
		timeout = firstDial
	}
	conn, err := dial(ctx, b.addr, timeout)
	switch {
	case err == nil && c.connected(conn):
		return b, nil
	case err == nil: // the connection was aborted; the backend has not failed
		p.release(b, c, netip.Addr{})
		return nil, nil
	case ctx.Err() != nil:
		p.release(b, c, netip.Addr{})
		return nil, errBackendRemoved
	}
	f.plane.metrics.dialFailures.Inc()
	p.dialFailed(b, c, time.Now().Add(f.plane.opts.FailedFor))
	return b, err
}

func dial(ctx context.Context, addr netip.AddrPort, timeout time.Duration) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: timeout}
	conn, err := d.DialContext(ctx, network("tcp", addr), addr.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// connection is a client connection with its backend connection.
type connection struct {
	client *net.TCPConn

	mu      sync.Mutex
	dial    context.CancelFunc // cancels the current dial
	server  *net.TCPConn
	aborted bool
}

// setDialCancel stores the function that cancels the dial that is about to begin.
func (c *connection) setDialCancel(cancel context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dial = cancel
}

// backendRemoved cancels the dial of a backend that was removed and may be dead, so that another
// one is tried. An established connection continues.
func (c *connection) backendRemoved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dial()
}

// connected stores the connection to the backend and reports true. If the connection was aborted
// before, it resets the one to the backend instead.
func (c *connection) connected(server *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aborted {
		reset(server)
		return false
	}
	c.server = server
	return true
}

// abort resets both sides.
func (c *connection) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted = true
	reset(c.client)
	if c.server != nil {
		reset(c.server)
	}
}

func reset(conn *net.TCPConn) {
	conn.SetLinger(0) //nolint:errcheck // fails on connections that are gone already
	conn.Close()
}

// copyBoth copies bytes in both directions until both have ended. The end of one direction is
// passed on as a half-close. An error ends both with a reset, so that a peer can tell a broken
// stream from a complete one.
func (c *connection) copyBoth() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.copyOne(c.client, c.server)
	}()
	c.copyOne(c.server, c.client)
	<-done
	c.client.Close()
	c.server.Close()
}

// copyOne copies bytes in one direction. The kernel does it without copies to this process where it
// can (splice).
func (c *connection) copyOne(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		c.abort()
		return
	}
	if err := to.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) {
		c.abort()
	}
}

func addrOf(a net.Addr) netip.AddrPort {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

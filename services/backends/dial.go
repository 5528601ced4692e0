package backends

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// The timeouts of a dial. firstDial is short because there is another backend to try.
const (
	firstDial = time.Second
	lastDial  = 10 * time.Second
)

// Dialer connects to backends. The zero value of a field selects its default.
type Dialer struct {
	// MaxAttempts is the maximum number of backends that are dialled for one connection. Default 5.
	MaxAttempts int
	// FailedFor is the time for which other backends are preferred to one that failed. Default 2 s.
	FailedFor time.Duration
	// KeepAlive is the field KeepAlive of net.Dialer.
	KeepAlive time.Duration
	// Failed is called after each failed dial. Default: nothing.
	Failed func(backend netip.AddrPort, err error)
}

func (d *Dialer) maxAttempts() int {
	if d.MaxAttempts == 0 {
		return 5
	}
	return d.MaxAttempts
}

func (d *Dialer) failedFor() time.Duration {
	if d.FailedFor == 0 {
		return 2 * time.Second
	}
	return d.FailedFor
}

// errBackendRemoved is the error of a dial that ended because the backend was removed.
var errBackendRemoved = errors.New("the backend leaves")

// Target is a pool to connect to, and the client's connection for which a Dialer connects.
type Target struct {
	Pool          *Pool
	Client, Local netip.AddrPort // the ends of the client's connection
	// Prepare is called with each connection to a backend before its use, for example for a TLS
	// handshake. An error counts as a failed dial. Nil: nothing.
	Prepare func(*net.TCPConn) error
}

// Connect picks backends for a connection and dials them until one answers, at most MaxAttempts. It
// returns nil if none does, if ctx is done, or if the connection was aborted. Otherwise the caller
// releases the backend. A backend that is removed during the dial does not count as a failed attempt,
// because it may come back and is dialled again then.
func (d *Dialer) Connect(ctx context.Context, to *Target, c *Connection) *Backend {
	var tried []*Backend
	for len(tried) < d.maxAttempts() && ctx.Err() == nil {
		b, err := d.attempt(ctx, to, c, tried)
		switch {
		case err == nil:
			return b
		case !errors.Is(err, errBackendRemoved):
			tried = append(tried, b)
		}
	}
	return nil
}

// attempt dials one backend that was not tried. It returns nil if there is none, or if the
// connection was aborted during the dial.
func (d *Dialer) attempt(ctx context.Context, to *Target, c *Connection, tried []*Backend) (*Backend, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.setDialCancel(cancel)
	b := to.Pool.Pick(to.Client, to.Local, tried, c)
	if b == nil {
		return nil, nil
	}
	conn, err := d.Dial(ctx, b.addr, d.Timeout(to.Pool, append(tried, b)))
	if err == nil && c.connected(conn) {
		if err = to.prepare(conn); err == nil {
			return b, nil
		}
		c.disconnected()
	}
	defer to.Pool.Release(b, c, netip.Addr{})
	switch {
	case c.Aborted(): // the backend has not failed
		return nil, nil
	case ctx.Err() != nil:
		return nil, errBackendRemoved
	}
	d.Fail(to.Pool, b, err)
	return b, err
}

func (t *Target) prepare(conn *net.TCPConn) error {
	if t.Prepare == nil {
		return nil
	}
	return t.Prepare(conn)
}

// Timeout returns the longest time for the dial of the last backend in tried. It is short if another
// backend can be tried after it.
func (d *Dialer) Timeout(p *Pool, tried []*Backend) time.Duration {
	if len(tried) < d.maxAttempts() && p.HasUntried(tried) {
		return firstDial
	}
	return lastDial
}

// Dial connects to an address.
func (d *Dialer) Dial(ctx context.Context, to netip.AddrPort, timeout time.Duration) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: timeout, KeepAlive: d.KeepAlive}
	// DialTCP would bind the socket to a port before the kernel knows the destination, so that each
	// local port would serve one connection only instead of one for each destination.
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// Fail records that a dial of a backend failed.
func (d *Dialer) Fail(p *Pool, b *Backend, err error) {
	p.Failed(b, time.Now().Add(d.failedFor()))
	if d.Failed != nil {
		d.Failed(b.addr, err)
	}
}

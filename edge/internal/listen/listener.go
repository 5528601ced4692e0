package listen

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"portolan.dev/services/backends"
	"portolan.dev/services/kit/app"
)

// Listener accepts connections at one address and port. It is safe for concurrent use.
type Listener struct {
	opts     Options
	tcp      *net.TCPListener
	settings atomic.Pointer[Settings]
	running  sync.WaitGroup // the accept loop, handshakes and handlers
	closing  context.Context
	close    context.CancelFunc

	connections connections
	unfinished  unfinished
}

// Open listens at an address. On failure it returns the cause without the address.
func Open(addr netip.AddrPort, o Options, s *Settings) (*Listener, error) {
	network := "tcp6" // an IPv6 socket that does not accept IPv4
	if addr.Addr().Is4() {
		network = "tcp4"
	}
	// Connections have idle timeouts, which find dead peers without the system calls that set keepalives.
	lc := net.ListenConfig{KeepAlive: -1, Control: o.Control}
	tcp, err := lc.Listen(context.Background(), network, addr.String())
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, err
	}
	l := &Listener{opts: o.withDefaults(), tcp: tcp.(*net.TCPListener)}
	l.closing, l.close = context.WithCancel(context.Background())
	l.unfinished.max = l.opts.MaxUnfinished
	l.settings.Store(s)
	l.running.Go(l.accept)
	return l, nil
}

// Addr returns the address at which the listener listens.
func (l *Listener) Addr() netip.AddrPort { return addrOf(l.tcp.Addr()) }

// Set changes the settings for the connections that are accepted from now on.
func (l *Listener) Set(s *Settings) { l.settings.Store(s) }

// Connections returns the number of connections that were admitted and not closed.
func (l *Listener) Connections() int { return l.connections.count() }

// Close closes the port and resets the connections with an unfinished handshake. Connections that are served
// continue.
func (l *Listener) Close() error {
	l.close()
	err := l.tcp.Close()
	l.unfinished.abort(Stopped)
	return err
}

// Wait waits until the listener is closed and all handlers have returned.
func (l *Listener) Wait() { l.running.Wait() }

// accept accepts connections until the listener is closed.
func (l *Listener) accept() {
	const least, most = 5 * time.Millisecond, time.Second
	backoff := least
	for {
		conn, err := l.tcp.AcceptTCP()
		switch {
		case err == nil:
			backoff = least
			l.admit(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default: // mostly out of file descriptors: wait until connections have ended
			l.opts.Log.Warn("accept", "address", l.tcp.Addr().String(), "err", err)
			if !app.Pause(l.closing, backoff) {
				return
			}
			backoff = min(2*backoff, most)
		}
	}
}

// admit begins to serve a connection unless its peer is not admitted. It adds a connection that needs a handshake
// to the unfinished ones, so that these are in the order of their arrival.
func (l *Listener) admit(raw *net.TCPConn) {
	s := l.settings.Load()
	peer, local := addrOf(raw.RemoteAddr()), addrOf(raw.LocalAddr())
	c := &Conn{Conn: raw, Raw: raw, Accepted: time.Now(), Peer: peer, Client: peer, Local: local, listener: l}
	fromProxy := contains(s.ProxyFrom, peer.Addr())
	switch {
	case !fromProxy && !s.admits(peer.Addr()):
		l.refuse(c, NotAdmitted)
	case !fromProxy && s.TLS == nil:
		l.running.Go(func() { l.serve(c, s, l.connections.add(peer.Addr(), s)) })
	default:
		place := l.unfinished.add(raw)
		l.running.Go(func() { l.serve(c, s, l.handshakes(c, s, place, fromProxy)) })
	}
}

// serve passes a connection on to its handler unless there is a reason to refuse it.
func (l *Listener) serve(c *Conn, s *Settings, refused Reason) {
	if refused != "" {
		l.refuse(c, refused)
		return
	}
	s.Handle(c)
}

func (l *Listener) refuse(c *Conn, r Reason) {
	l.opts.Refused(r)
	if r != BadTLS { // a reset would lose the alert
		backends.Reset(c.Raw)
	}
	c.Raw.Close() //nolint:errcheck // the connection was never served
}

// handshakes does the handshakes of a connection within the time limit. It returns the reason why the connection
// must end, or "".
func (l *Listener) handshakes(c *Conn, s *Settings, p *place, fromProxy bool) Reason {
	defer l.unfinished.remove(p)
	if l.closing.Err() != nil {
		return Stopped
	}
	c.Raw.SetDeadline(c.Accepted.Add(l.opts.HandshakeTimeout)) //nolint:errcheck // the handshake fails too
	reason := l.handshake(c, s, fromProxy)
	c.Raw.SetDeadline(time.Time{}) //nolint:errcheck // later reads fail too
	if displaced := p.reason(); displaced != "" {
		if reason == "" {
			l.connections.remove(c.Client.Addr())
		}
		return displaced
	}
	return reason
}

// handshake reads the PROXY header if the peer must send one, and terminates TLS if the settings say so.
// It counts the connection before TLS, so that limits also limit the cost of TLS handshakes.
func (l *Listener) handshake(c *Conn, s *Settings, fromProxy bool) Reason {
	if fromProxy {
		if reason := c.readHeader(s); reason != "" {
			return reason
		}
	}
	if reason := l.connections.add(c.Client.Addr(), s); reason != "" {
		return reason
	}
	if s.TLS != nil && !c.terminateTLS(s.TLS()) {
		l.connections.remove(c.Client.Addr())
		return BadTLS
	}
	return ""
}

func addrOf(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return unmap(tcp.AddrPort())
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

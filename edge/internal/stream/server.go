package stream

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"portolan.dev/edge/internal/ending"
	"portolan.dev/edge/internal/listen"
	"portolan.dev/services/backends"
)

// Server serves the connections of one port. It is safe for concurrent use.
type Server struct {
	opts     Options
	settings atomic.Pointer[Settings]
	dials    context.Context // of all dials; ends when Shutdown aborts the connections
	abort    context.CancelFunc

	mu      sync.Mutex
	stopped bool
	open    map[*connection]struct{}
	sweeper *time.Timer // nil: there are no connections, or no idle timeout
	drained chan struct{}
}

// New returns a server.
func New(o Options, s *Settings) *Server {
	srv := &Server{opts: o.withDefaults(), open: map[*connection]struct{}{}, drained: make(chan struct{})}
	srv.dials, srv.abort = context.WithCancel(context.Background())
	srv.settings.Store(s)
	return srv
}

// connection is a client's connection. It has its future Record, and the state of the copying.
type connection struct {
	record  Record
	session *backends.Connection

	copying  atomic.Bool
	timedOut atomic.Bool
	// The sweeper alone uses the fields below.
	progress uint64
	since    time.Time // when the sweeper last saw progress
}

// Handle serves a connection. It is a handler of listen.Settings. It returns when a backend is connected, or when none
// can be reached.
func (s *Server) Handle(client *listen.Conn) {
	c := &connection{record: Record{Conn: client}, session: backends.NewConnection(client.Raw)}
	if !s.add(c) {
		c.session.Abort()
		client.Close() //nolint:errcheck // it was reset
		return
	}
	backend, server := s.connect(c)
	if backend == nil {
		c.record.Ending = ending.NoBackend
		c.session.Abort()
		s.finish(c)
		return
	}
	c.record.Backend, c.record.Connected = backend.Addr(), time.Now()
	s.copy(c, server, func() {
		s.opts.Pool.Release(backend, c.session, client.Client.Addr())
		s.finish(c)
	})
}

// connect connects to a backend. It returns nil if no backend was reached, otherwise the backend and
// the stream for the client's bytes.
func (s *Server) connect(c *connection) (*backends.Backend, backends.Stream) {
	client, settings := c.record.Conn, s.settings.Load()
	server := backends.Stream(nil)
	backend := s.opts.Dialer.Connect(s.dials, &backends.Target{
		Pool: s.opts.Pool, Client: client.Client, Local: client.Local,
		Prepare: func(conn *net.TCPConn) (err error) {
			server, err = s.prepare(conn, client, settings)
			return err
		},
	}, c.session)
	return backend, server
}

// copy passes on bytes until the end, then calls done.
func (s *Server) copy(c *connection, server backends.Stream, done func()) {
	client := backends.Stream(c.record.Conn.Raw)
	if c.record.Conn.TLS != nil {
		client = c.record.Conn.TLS
	}
	if early := c.record.Conn.TakeBuffered(); len(early) > 0 {
		if _, err := server.Write(early); err != nil {
			c.session.Abort()
		}
		c.session.AddReceived(len(early))
	}
	c.copying.Store(true)
	c.session.Copy(client, server, done)
}

// prepare sends the PROXY header to a backend and begins TLS, as the settings say. It returns the
// stream for the client's bytes.
func (s *Server) prepare(conn *net.TCPConn, client *listen.Conn, settings *Settings) (backends.Stream, error) {
	if settings.Header != NoHeader {
		header, err := format(settings.Header, client.Client, client.Local)
		if err != nil {
			return nil, err
		}
		if _, err := conn.Write(header); err != nil {
			return nil, err
		}
	}
	if settings.BackendTLS == nil {
		return conn, nil
	}
	secure := tls.Client(conn, settings.BackendTLS)
	conn.SetDeadline(time.Now().Add(handshakeTimeout)) //nolint:errcheck // the handshake fails too
	// The deadline ends the handshake. A context would need a goroutine.
	if err := secure.HandshakeContext(context.Background()); err != nil {
		return nil, err
	}
	return secure, conn.SetDeadline(time.Time{})
}

// finish closes and reports a connection that has ended.
func (s *Server) finish(c *connection) {
	r := &c.record
	r.Conn.Close() //nolint:errcheck // it has ended
	if r.Backend.IsValid() {
		r.Ending = c.ending()
	}
	r.FirstByte, r.Ended = c.session.FirstSent(), time.Now()
	r.Received, r.Sent = c.session.Received(), c.session.Sent()
	s.opts.Finished(r)
	s.remove(c)
}

// ending returns the way in which a connection with a backend has ended.
func (c *connection) ending() ending.Ending {
	broken := c.session.Broken()
	switch {
	case c.timedOut.Load():
		return ending.Idle
	case broken == backends.ClientSide:
		return ending.ClientGone
	case broken == backends.BackendSide:
		return ending.BackendGone
	case c.session.Aborted():
		return ending.Stopped
	}
	return ending.Complete
}

// add adds a connection unless the server was shut down.
func (s *Server) add(c *connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.open[c] = struct{}{}
	s.schedule()
	return true
}

func (s *Server) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if s.stopped && len(s.open) == 0 {
		close(s.drained)
	}
}

// Shutdown resets new connections, and waits until the established ones have ended. When ctx is done, it resets the
// remaining ones. It may be called several times, for example with an earlier end for ctx.
func (s *Server) Shutdown(ctx context.Context) {
	s.mu.Lock()
	if !s.stopped && len(s.open) == 0 {
		close(s.drained) // otherwise remove closes it
	}
	s.stopped = true
	s.mu.Unlock()
	select {
	case <-s.drained:
	case <-ctx.Done():
		s.abortAll()
		<-s.drained
	}
	s.abort()
}

func (s *Server) abortAll() {
	s.abort()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.session.Abort()
	}
}

package web

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"portolan.dev/edge/internal/listen"
	"portolan.dev/services/backends"
)

// Server is the layer-7 proxy of one port of a service.
type Server struct {
	pool     *backends.Pool
	log      *slog.Logger
	settings atomic.Pointer[settings]
	fast     fastConns
	// requests is the context of the requests of references. abort ends it.
	requests  context.Context
	abort     context.CancelFunc
	exchanges exchanges // requests of references
	sweeper   sweeper

	mu         sync.Mutex
	references map[time.Duration]*reference // by idle timeout
	closed     bool
}

// New returns a server that distributes requests over the backends of a pool.
func New(pool *backends.Pool, c Config, log *slog.Logger) *Server {
	s := &Server{pool: pool, log: log, references: map[time.Duration]*reference{}}
	s.requests, s.abort = context.WithCancel(context.Background())
	s.settings.Store(newSettings(s, c))
	s.sweeper.all = s.swept
	s.sweeper.idle = func() time.Duration { return s.settings.Load().config.IdleTimeout }
	return s
}

// Serve serves a connection and closes it. It may return before the connection has ended.
func (s *Server) Serve(accepted *listen.Conn) {
	if conn, read := newClientConn(accepted); !s.serve(conn, read) {
		conn.Close() //nolint:errcheck // nothing was written
	}
}

// serve serves a connection by the fast path, or by a reference if the fast path cannot. It returns false if the server
// takes no more connections.
func (s *Server) serve(conn *clientConn, read []byte) bool {
	set, state := s.settings.Load(), conn.info.tls
	if set.takesReference() || len(read) > readSize || state != nil && state.NegotiatedProtocol == "h2" {
		return s.refer(conn, read)
	}
	c := newFastConn(set, conn)
	if !s.fast.add(c) {
		return false
	}
	s.sweeper.begin()
	c.run(read)
	return true
}

// refer gives a connection to the reference. read has the bytes that were read from it. refer returns false if the
// server takes no more connections.
func (s *Server) refer(conn *clientConn, read []byte) bool {
	guarded := newGuard(conn, s.settings.Load().config.MaxHeaderBytes, read)
	for {
		r := s.reference()
		if r == nil || r.give(guarded) {
			return r != nil
		}
	}
}

// Update changes the settings from the next request of each connection on. No connection ends, and no request.
func (s *Server) Update(c Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	old, next := s.settings.Load(), newSettings(s, c)
	if old.keepsUpstreams(next) {
		next.upstreams = old.upstreams
	}
	s.settings.Store(next)
	if next.upstreams != old.upstreams {
		old.upstreams.close() // requests that use them have them until their end
	}
	s.forgetReferences()
	if next.config.IdleTimeout != old.config.IdleTimeout {
		s.fast.each((*fastConn).rearm)
	}
}

// BackendRemoved closes the idle connections to a backend. The owner of the pool calls it for each
// backend that is removed (backends.Options).
func (s *Server) BackendRemoved(addr netip.AddrPort) { s.settings.Load().upstreams.remove(addr) }

// Shutdown ends all connections after their current request. When ctx ends, it closes the remaining ones. New
// connections are closed at once.
func (s *Server) Shutdown(ctx context.Context) {
	references := s.close()
	var all sync.WaitGroup
	all.Go(func() { s.fast.shutdown(ctx) })
	for _, r := range references {
		all.Go(func() { r.http.Shutdown(ctx) }) //nolint:errcheck // close ends the connections that remain
	}
	all.Go(func() { waitUntil(ctx, &s.exchanges.running) }) // net/http does not wait for connections that have changed the protocol
	all.Wait()
	s.abort()
	for _, r := range references {
		r.close()
	}
	s.exchanges.running.Wait()
	s.settings.Load().upstreams.close()
}

// close lets the server take no more connections. It returns the references, which may have connections.
func (s *Server) close() []*reference {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return slices.Collect(maps.Values(s.references))
}

// waitUntil waits for all of a group, or for the end of ctx. It reports whether all have ended.
func waitUntil(ctx context.Context, all *sync.WaitGroup) bool {
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}

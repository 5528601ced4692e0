package web

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"portolan.dev/edge/internal/listen"
	"portolan.dev/services/backends"
)

// Server is the layer-7 proxy of one port of a service.
type Server struct {
	pool *backends.Pool
	log  *slog.Logger

	mu      sync.Mutex
	current *generation
	former  map[*generation]struct{} // generations that drain
	closed  bool
}

// New returns a server that distributes requests over the backends of a pool.
func New(pool *backends.Pool, c Config, log *slog.Logger) *Server {
	return &Server{
		pool: pool, log: log,
		current: newGeneration(pool, c, log), former: map[*generation]struct{}{},
	}
}

// Serve serves a connection and closes it. It may return before the connection has ended.
func (s *Server) Serve(accepted *listen.Conn) {
	conn, read := newClientConn(accepted)
	for {
		s.mu.Lock()
		g, closed := s.current, s.closed
		s.mu.Unlock()
		if closed {
			conn.Close() //nolint:errcheck // nothing was written
			return
		}
		if g.serve(conn, read) {
			return
		}
	}
}

// Update changes the settings. Existing connections end after their current request, and are closed after the time
// drain.
func (s *Server) Update(c Config, drain time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	old := s.current
	s.current = newGeneration(s.pool, c, s.log)
	s.former[old] = struct{}{}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		old.shutdown(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.former, old)
	}()
}

// BackendRemoved closes the idle connections to a backend. The owner of the pool calls it for each
// backend that is removed (backends.Options).
func (s *Server) BackendRemoved(addr netip.AddrPort) {
	for _, g := range s.generations() {
		g.upstreams.remove(addr)
	}
}

// Shutdown ends all connections after their current request. When ctx ends, it closes the remaining ones. New
// connections are closed at once.
func (s *Server) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, g := range s.generations() {
		all.Go(func() { g.shutdown(ctx) })
	}
	all.Wait()
}

func (s *Server) generations() []*generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []*generation{s.current}
	for g := range s.former {
		out = append(out, g)
	}
	return out
}

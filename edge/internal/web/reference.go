package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
)

// reference is a server of net/http, for connections that the fast path does not take. net/http takes the idle timeout of a
// connection from its server, so each idle timeout has a reference of its own, and connections keep the idle timeout under
// which they came.
type reference struct {
	lis   *listener
	http  *http.Server
	open  atomic.Int64  // connections, also those that it is about to get
	ended chan struct{} // closed when it accepts no more connections
}

// reference returns the reference for a connection that comes now, which counts it. It returns nil if the server takes
// no more connections.
func (s *Server) reference() *reference {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	idle := s.settings.Load().config.IdleTimeout
	r := s.references[idle]
	if r == nil {
		r = s.newReference()
		s.references[idle] = r
	}
	r.open.Add(1)
	return r
}

// forgetReferences ends the references of former idle timeouts that have no connections. The caller holds the lock.
func (s *Server) forgetReferences() {
	for idle, r := range s.references {
		if idle != s.settings.Load().config.IdleTimeout && r.open.Load() == 0 {
			delete(s.references, idle)
			r.close()
		}
	}
}

// newReference starts a reference with the idle timeout of the settings.
func (s *Server) newReference() *reference {
	r := &reference{lis: newListener(), ended: make(chan struct{})}
	r.http = s.newHTTPServer(func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			r.open.Add(-1)
		}
	})
	go func() {
		defer close(r.ended)
		if err := r.http.Serve(r.lis); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.log.Error("the server of HTTP ended", "err", err)
		}
	}()
	return r
}

// give gives a connection to the reference, which has counted it. It returns false if the reference has ended.
func (r *reference) give(c net.Conn) bool {
	given := r.lis.give(c)
	if !given {
		r.open.Add(-1)
	}
	return given
}

// close ends all connections of the reference.
func (r *reference) close() {
	r.http.Close() //nolint:errcheck // the listener has no errors
	<-r.ended
}

// newHTTPServer returns a server of net/http with the present settings that a connection has for all of its life.
func (s *Server) newHTTPServer(changed func(net.Conn, http.ConnState)) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	c := &s.settings.Load().config
	return &http.Server{
		Handler:           &handler{server: s},
		Protocols:         &protocols,
		ReadHeaderTimeout: c.HeaderTimeout,
		IdleTimeout:       c.IdleTimeout,
		MaxHeaderBytes:    c.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return s.requests },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, guardKey{}, c)
		},
		ConnState:                    changed,
		DisableGeneralOptionsHandler: true,
	}
}

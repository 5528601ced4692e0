package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"portolan.dev/services/backends"
)

// generation serves connections with one version of the settings.
type generation struct {
	config    Config
	pool      *backends.Pool
	upstreams *upstreams
	lis       *listener
	http      *http.Server
	abort     context.CancelFunc // cancels all requests of the reference
	fast      fastConns
	exchanges sync.WaitGroup // requests of the reference
	running   sync.WaitGroup
}

func newGeneration(pool *backends.Pool, c Config, log *slog.Logger) *generation {
	c = c.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	g := &generation{config: c, pool: pool, upstreams: newUpstreams(c), lis: newListener(), abort: cancel}
	g.http = g.newHTTPServer(ctx, log)
	g.running.Go(func() {
		if err := g.http.Serve(g.lis); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			log.Error("the server of HTTP ended", "err", err)
		}
	})
	return g
}

// serve serves a connection by the fast path, or by the reference if the fast path cannot. It returns false if the
// generation takes no more connections.
func (g *generation) serve(conn *clientConn, read []byte) bool {
	state := conn.info.tls
	if g.config.ReferenceOnly || g.config.Protocol != HTTP || len(read) > readSize || state != nil && state.NegotiatedProtocol == "h2" {
		return g.refer(conn, read)
	}
	c := newFastConn(g, conn)
	if !g.fast.add(c) {
		return false
	}
	c.run(read)
	return true
}

// refer gives a connection to the reference. read has the bytes that were read from it. refer returns false if the
// reference takes no more connections.
func (g *generation) refer(conn *clientConn, read []byte) bool {
	return g.lis.give(newGuard(conn, g.config.MaxHeaderBytes, read))
}

// shutdown ends each connection after its current request. When ctx ends, it ends the remaining ones at once.
func (g *generation) shutdown(ctx context.Context) {
	fast := make(chan struct{})
	go func() {
		defer close(fast)
		g.fast.shutdown(ctx)
	}()
	if err := g.http.Shutdown(ctx); err == nil {
		waitUntil(ctx, &g.exchanges) // http.Server does not wait for connections that have changed the protocol
	}
	<-fast
	g.abort()
	g.http.Close() //nolint:errcheck // the listener has no errors
	g.exchanges.Wait()
	g.upstreams.close()
	g.running.Wait()
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

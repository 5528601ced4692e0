package web

import (
	"context"
	"sync"
	"sync/atomic"
)

// fastConns holds the connections of clients on the fast path.
type fastConns struct {
	draining atomic.Bool
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[*fastConn]struct{}
}

// add adds a connection. It returns false if the fast path takes no more connections.
func (f *fastConns) add(c *fastConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining.Load() {
		return false
	}
	if f.conns == nil {
		f.conns = map[*fastConn]struct{}{}
	}
	f.conns[c] = struct{}{}
	f.running.Add(1)
	return true
}

func (f *fastConns) remove(c *fastConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
	f.running.Done()
}

// shutdown ends connections after their current request, and those that wait for one. When ctx ends, it aborts the
// remaining ones.
func (f *fastConns) shutdown(ctx context.Context) {
	f.mu.Lock()
	f.draining.Store(true)
	f.mu.Unlock()
	f.each((*fastConn).rearm)
	if !waitUntil(ctx, &f.running) {
		f.each((*fastConn).Abort)
		f.running.Wait()
	}
}

func (f *fastConns) each(do func(*fastConn)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		do(c)
	}
}

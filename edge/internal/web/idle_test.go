package web_test

import (
	"runtime"
	"testing"

	"portolan.dev/edge/internal/web"
)

// TestIdleConnectionsAreCheap checks that a connection that waits for a request has no buffers, which
// would be more than 50 KiB.
func TestIdleConnectionsAreCheap(t *testing.T) {
	const connections, limit = 1000, 20 << 10
	e := startEdge(t, web.Config{}, nil, startHTTP(t, echo))
	inUse := func() uint64 {
		for range 3 { // objects of a sync.Pool survive two collections
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := inUse()
	conns := make([]*client, connections)
	for i := range conns {
		conns[i] = connect(t, e.addr)
		conns[i].send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		conns[i].response("GET")
		conns[i].r = nil
	}
	each := (inUse() - before) / connections
	t.Logf("%d bytes for each connection, with the test's end", each)
	if each > limit {
		t.Errorf("%d bytes for each idle connection, want at most %d", each, limit)
	}
	runtime.KeepAlive(conns)
}

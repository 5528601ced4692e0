package kubeapi

import (
	"io"
	"net"
	"sync"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// relay passes connections at an address of its own on to a server, until it is cut off. Clients see it
// as a server that is down: while it is cut off, it refuses connections.
type relay struct {
	t      *testing.T
	listen func(addr string) (net.Listener, error)
	addr   string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]struct{}
	running  sync.WaitGroup
}

// newRelay starts a relay to a server. listen opens its listener, perhaps elsewhere; nil: here.
func newRelay(t *testing.T, to string, listen func(addr string) (net.Listener, error)) *relay {
	t.Helper()
	if listen == nil {
		listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	r := &relay{t: t, listen: listen, addr: "127.0.0.1:0", open: map[net.Conn]struct{}{}}
	r.join(to)
	t.Cleanup(r.cut)
	return r
}

// join passes new connections on to a server.
func (r *relay) join(to string) {
	r.t.Helper()
	var listener net.Listener
	kittest.Eventually(r.t, "the address of the relay", func() (err error) {
		listener, err = r.listen(r.addr)
		return err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listener, r.addr = listener, listener.Addr().String()
	r.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.running.Go(func() { r.pass(listener, conn, to) })
		}
	})
}

// pass copies between a client and the server until one of them, or the relay, ends the connection.
func (r *relay) pass(listener net.Listener, client net.Conn, to string) {
	server, err := net.Dial("tcp", to)
	if err != nil {
		_ = client.Close()
		return
	}
	ends := [2]net.Conn{client, server}
	r.mu.Lock()
	if r.listener == listener {
		r.open[client], r.open[server] = struct{}{}, struct{}{}
	} else { // the relay was cut off meanwhile
		_, _ = client.Close(), server.Close()
	}
	r.mu.Unlock()
	var both sync.WaitGroup
	for n := range ends {
		both.Go(func() {
			_, _ = io.Copy(ends[n], ends[1-n]) // ends with an error when the relay is cut off
			_, _ = ends[n].Close(), ends[1-n].Close()
		})
	}
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, client)
	delete(r.open, server)
}

// cut ends all connections, and refuses new ones until join. A relay that is cut off stays so.
func (r *relay) cut() {
	r.mu.Lock()
	if r.listener != nil {
		_ = r.listener.Close()
		r.listener = nil
	}
	for conn := range r.open {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

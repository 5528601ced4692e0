package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

// pipeNetwork is the network in the addresses of pipes.
const pipeNetwork = "bufconn"

// pipeBuffer is the capacity of a pipe in each direction, in bytes.
const pipeBuffer = 256 << 10

// MemoryNetwork connects the daemons of one process. It listens on TCP too. When it connects to an
// address that one of its own listeners serves at that moment, it uses a pipe, so the order in
// which daemons start does not matter. It connects to all other addresses over TCP.
type MemoryNetwork struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener // by listening address, with the resolved port
}

// Memory returns a network without listeners.
func Memory() *MemoryNetwork {
	return &MemoryNetwork{listeners: map[string]*memoryListener{}}
}

// Listen implements Network.
func (n *MemoryNetwork) Listen(addr string) (net.Listener, error) {
	n.mu.Lock() // so that a client that reaches the TCP port also finds the listener
	defer n.mu.Unlock()
	tcp, err := listenTCP(addr)
	if err != nil {
		return nil, err
	}
	key := tcp.Addr().String()
	l := newMemoryListener(tcp, func() { n.remove(key) })
	n.listeners[key] = l
	return l, nil
}

func (n *MemoryNetwork) remove(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.listeners, key)
}

// Dial implements Network.
func (n *MemoryNetwork) Dial(target string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := dial(target, n.connect, opts)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}
	return conn, nil
}

// connect opens a pipe to one of the network's listeners, or a TCP connection. If the listener came
// between the search for it and the connection, the connection is replaced by a pipe, because a
// server with a token accepts only pipes without one.
func (n *MemoryNetwork) connect(ctx context.Context, addr string) (net.Conn, error) {
	if l := n.find(addr); l != nil {
		return l.pipe.DialContext(ctx)
	}
	conn, err := dialTCP(ctx, addr)
	if err != nil {
		return nil, err
	}
	if l := n.find(addr); l != nil {
		_ = conn.Close()
		return l.pipe.DialContext(ctx)
	}
	return conn, nil
}

// find returns the listener for addr, or nil. A listener on all addresses also serves every
// loopback address.
func (n *MemoryNetwork) find(addr string) *memoryListener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.listeners[addr]; l != nil {
		return l
	}
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || !(ap.Addr().IsLoopback() || ap.Addr().IsUnspecified()) {
		return nil
	}
	for _, any := range []netip.Addr{netip.IPv6Unspecified(), netip.IPv4Unspecified()} {
		if l := n.listeners[netip.AddrPortFrom(any, ap.Port()).String()]; l != nil {
			return l
		}
	}
	return nil
}

// memoryListener accepts connections from a TCP listener and from pipes.
type memoryListener struct {
	tcp      net.Listener
	pipe     *bufconn.Listener
	accepted chan accepted
	closed   chan struct{}
	loops    sync.WaitGroup
	close    func() error
}

// accepted is a result of Accept. Errors are passed on too, because the gRPC server knows which are
// temporary, and waits before it calls Accept again.
type accepted struct {
	conn net.Conn
	err  error
}

func newMemoryListener(tcp net.Listener, onClose func()) *memoryListener {
	l := &memoryListener{
		tcp: tcp, pipe: bufconn.Listen(pipeBuffer),
		accepted: make(chan accepted), closed: make(chan struct{}),
	}
	l.close = sync.OnceValue(func() error {
		onClose()
		close(l.closed)
		err := errors.Join(l.tcp.Close(), l.pipe.Close())
		l.loops.Wait()
		return err
	})
	l.loops.Go(func() { l.acceptFrom(l.tcp) })
	l.loops.Go(func() { l.acceptFrom(l.pipe) })
	return l
}

func (l *memoryListener) acceptFrom(from net.Listener) {
	for {
		conn, err := from.Accept()
		select {
		case l.accepted <- accepted{conn, err}:
		case <-l.closed:
			if conn != nil {
				conn.Close()
			}
			return
		}
	}
}

// Accept implements net.Listener.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener. It returns the TCP address with the resolved port.
func (l *memoryListener) Addr() net.Addr { return l.tcp.Addr() }

// Close implements net.Listener.
func (l *memoryListener) Close() error { return l.close() }

package userspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"portolan.dev/services/backends"
	"portolan.dev/services/kit/app"
)

// maxDatagram is the largest payload that UDP can carry.
const maxDatagram = 65535

// buffers holds buffers for datagrams in transit. A flow that waits holds no buffer.
var buffers = sync.Pool{New: func() any { b := make([]byte, maxDatagram); return &b }}

// udpSocket is a frontend's UDP socket with the flows of its clients.
type udpSocket struct {
	front *frontend
	conn  *net.UDPConn

	mu     sync.Mutex
	closed bool
	flows  map[netip.AddrPort]*flow
}

func (f *frontend) listenUDP(lc *net.ListenConfig) (socket, error) {
	conn, err := lc.ListenPacket(context.Background(), network("udp", f.key.Addr), f.key.Addr.String())
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", f.key, causeOf(err))
	}
	s := &udpSocket{front: f, conn: conn.(*net.UDPConn), flows: map[netip.AddrPort]*flow{}}
	f.plane.running.Go(s.receive)
	return s, nil
}

// Close implements socket. It ends all flows.
func (s *udpSocket) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, fl := range s.flows {
		fl.Abort()
	}
	s.mu.Unlock()
	return s.conn.Close()
}

// receive forwards the datagrams of clients until the socket is closed.
func (s *udpSocket) receive() {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if !app.Pause(s.front.plane.ctx, time.Millisecond) {
				return
			}
			continue
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if fl := s.flow(from); fl != nil {
			fl.send(buf[:n])
		}
	}
}

// flow returns the flow of a client and starts one if needed. It returns nil if the datagram has to
// be dropped.
func (s *udpSocket) flow(client netip.AddrPort) *flow {
	s.mu.Lock()
	fl := s.flows[client]
	full := len(s.flows) >= s.front.plane.opts.MaxFlows
	s.mu.Unlock()
	if fl != nil {
		return fl
	}
	if full {
		s.front.plane.metrics.dropped.WithLabelValues("too_many_flows").Inc()
		return nil
	}
	p := s.front.poolFor(client.Addr())
	if p == nil {
		s.front.plane.metrics.dropped.WithLabelValues("denied").Inc()
		return nil
	}
	return s.start(client, p)
}

// start starts a flow from a client to a backend.
func (s *udpSocket) start(client netip.AddrPort, p *backends.Pool) *flow {
	fl := &flow{socket: s, client: client, pool: p}
	fl.backend = p.Pick(client, s.front.key.Addr, nil, fl)
	if fl.backend == nil {
		s.front.plane.metrics.dropped.WithLabelValues("no_backend").Inc()
		return nil
	}
	conn, err := net.DialUDP(network("udp", fl.backend.Addr()), nil, net.UDPAddrFromAddrPort(fl.backend.Addr()))
	if err != nil {
		p.Failed(fl.backend, time.Now().Add(s.front.plane.opts.FailedFor))
		p.Release(fl.backend, fl, netip.Addr{})
		s.front.plane.metrics.dropped.WithLabelValues("dial").Inc()
		return nil
	}
	if !fl.connected(conn) || !s.keep(fl) { // the backend or the frontend was removed during the dial
		conn.Close()
		p.Release(fl.backend, fl, netip.Addr{})
		return nil
	}
	s.front.plane.metrics.flows.Inc()
	s.front.plane.running.Go(fl.answer)
	return fl
}

func (s *udpSocket) keep(fl *flow) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.flows[fl.client] = fl
	return true
}

func (s *udpSocket) forget(fl *flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flows[fl.client] == fl {
		delete(s.flows, fl.client)
	}
}

// flow carries the datagrams between one client and one backend.
type flow struct {
	socket  *udpSocket
	client  netip.AddrPort
	pool    *backends.Pool
	backend *backends.Backend
	last    atomic.Int64 // time of the client's last datagram, in Unix nanoseconds

	mu      sync.Mutex
	conn    *net.UDPConn
	aborted bool
}

func (fl *flow) connected(conn *net.UDPConn) bool {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.aborted {
		return false
	}
	fl.conn = conn
	return true
}

// Abort implements backends.Session. It ends the flow. The client's next datagram starts another flow. The pool
// is locked during the call, so answer removes the flow from the socket later. If the socket finds the flow
// before that, send sees the closed connection.
func (fl *flow) Abort() {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	fl.aborted = true
	if fl.conn != nil {
		fl.conn.Close()
	}
}

// BackendRemoved implements backends.Session. It ends the flow, so that the client's next datagram goes to another backend.
func (fl *flow) BackendRemoved() { fl.Abort() }

// send forwards a datagram to the backend. The first datagram after the flow has ended goes over a
// new flow, so that none is lost by the move.
func (fl *flow) send(data []byte) {
	fl.last.Store(time.Now().UnixNano())
	_, err := fl.conn.Write(data)
	if err == nil {
		return
	}
	fl.socket.forget(fl)
	if errors.Is(err, syscall.ECONNREFUSED) {
		fl.refused()
	}
	if next := fl.socket.flow(fl.client); next != nil && next != fl {
		next.last.Store(time.Now().UnixNano())
		if _, err := next.conn.Write(data); err != nil {
			fl.socket.front.plane.metrics.dropped.WithLabelValues("send").Inc()
		}
	}
}

// refused marks the backend as failed because no program listens there, and ends the flow.
func (fl *flow) refused() {
	fl.pool.Failed(fl.backend, time.Now().Add(fl.socket.front.plane.opts.FailedFor))
	fl.Abort()
}

// answer forwards the backend's datagrams until the flow is idle or ended.
func (fl *flow) answer() {
	idle := fl.socket.front.plane.opts.FlowIdle
	for {
		err := fl.answerOne(time.Now().Add(idle))
		if err == nil {
			continue
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			fl.refused()
		} else if isTimeout(err) && time.Since(time.Unix(0, fl.last.Load())) < idle {
			continue // the client is still sending
		}
		break
	}
	fl.socket.forget(fl)
	fl.Abort()
	fl.socket.front.plane.metrics.flows.Dec()
	fl.pool.Release(fl.backend, fl, fl.client.Addr())
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

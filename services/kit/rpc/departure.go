package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc/peer"
)

// ClientLeft reports whether the other side of a call's connection has closed it. The kernel of the
// client's machine does so as well when the client's process dies. It is false if the server itself
// has closed the connection, also because nothing was heard of the client for some time. The answer
// is known when the call's context ends, and the call must be one that this package's server serves.
func ClientLeft(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	addr, ok := p.Addr.(clientAddr)
	return ok && addr.left.Load()
}

// departures is a listener. Its connections record whether the other side has closed them.
type departures struct{ net.Listener }

// Accept implements net.Listener.
func (d departures) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &departing{Conn: conn}, nil
}

// departing is a connection that notes whether the other side has closed it. Its address carries the
// note to the calls, because an address is all that gRPC passes on of a connection.
type departing struct {
	net.Conn
	left atomic.Bool
}

// clientAddr is the address of a client with the note of its connection.
type clientAddr struct {
	net.Addr
	left *atomic.Bool
}

// RemoteAddr implements net.Conn.
func (d *departing) RemoteAddr() net.Addr { return clientAddr{d.Conn.RemoteAddr(), &d.left} }

// Read implements net.Conn.
func (d *departing) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	d.note(err)
	return n, err
}

// Write implements net.Conn.
func (d *departing) Write(b []byte) (int, error) {
	n, err := d.Conn.Write(b)
	d.note(err)
	return n, err
}

// note takes the error of a read or write. The errors that count are answers of the other side's
// kernel. A connection that times out, or that this process closes, has other ones.
func (d *departing) note(err error) {
	if err != nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
		d.left.Store(true)
	}
}

// ipOf returns the IP address of a connection's other side, if it has one.
func ipOf(addr net.Addr) (netip.Addr, bool) {
	if client, ok := addr.(clientAddr); ok {
		addr = client.Addr
	}
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	return tcp.AddrPort().Addr().Unmap().WithZone(""), true
}

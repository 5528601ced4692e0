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

// ClientLeft reports whether the client has closed the connection of a call. When the client's process
// dies, the kernel of its machine closes the connection too. ClientLeft returns false if the server has
// closed the connection, for example because the client was silent for some time. The answer is known when
// the call's context ends. The call must be served by the server of this package.
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

// departing is a connection that records whether the other side has closed it. Calls read the record
// from the connection's address, because gRPC passes only the address of a connection to calls.
type departing struct {
	net.Conn
	left atomic.Bool
}

// clientAddr is the address of a client with the record of its connection.
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

// note records whether the error of a read or write means that the other side has closed the connection.
// Only errors that come from the other side's kernel do. A timeout, or a close by this process, gives
// other errors.
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

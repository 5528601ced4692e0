package web

import (
	"crypto/tls"
	"net"
	"net/netip"

	"portolan.dev/edge/internal/listen"
)

// info describes a client's connection.
type info struct {
	client netip.AddrPort
	local  netip.AddrPort       // the address and port that the client connected to
	tls    *tls.ConnectionState // nil: no TLS
}

func (i *info) scheme() string {
	if i.tls != nil {
		return "https"
	}
	return "http"
}

// clientConn is a client's connection over TLS or TCP. If a PROXY header was read from a TCP connection, newClientConn
// returns the bytes that came with the header, and Read returns the bytes after them.
type clientConn struct {
	net.Conn
	tcp      *net.TCPConn // nil: TLS
	accepted *listen.Conn
	info     info
}

// newClientConn returns the connection, and the bytes that were read from it together with a PROXY header.
func newClientConn(a *listen.Conn) (*clientConn, []byte) {
	c := &clientConn{Conn: a.Raw, tcp: a.Raw, accepted: a, info: info{client: a.Client, local: a.Local}}
	if a.TLS != nil {
		state := a.TLS.ConnectionState()
		c.Conn, c.tcp, c.info.tls = a.TLS, nil, &state
	}
	return c, a.TakeBuffered()
}

// Close implements net.Conn. The listener counts the connection until it is closed.
func (c *clientConn) Close() error { return c.accepted.Close() }

// CloseWrite closes the direction to the client.
func (c *clientConn) CloseWrite() error {
	if c.tcp != nil {
		return c.tcp.CloseWrite()
	}
	return c.accepted.TLS.CloseWrite()
}

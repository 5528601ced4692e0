package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
)

// dotProtocol is the name of DNS over TLS in the handshake (ALPN). A client that says it wants
// another protocol, such as a browser that was sent here, is refused.
const dotProtocol = "dot"

// tlsListener is a listener for DNS over TLS.
type tlsListener struct {
	net.Listener
	config *tls.Config
}

// ListenTLS opens addr for DNS over TLS (RFC 7858).
func (s *Server) ListenTLS(addr string, config *tls.Config) error {
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	config = config.Clone()
	config.NextProtos = []string{dotProtocol}
	s.tls = append(s.tls, tlsListener{lis, config})
	return nil
}

// TLSAddrs are the addresses listened on for DNS over TLS.
func (s *Server) TLSAddrs() []string {
	var addrs []string
	for _, lis := range s.tls {
		addrs = append(addrs, lis.Addr().String())
	}
	return addrs
}

// serveTLS serves a connection after its handshake, which has to be complete within the idle
// timeout like a question.
func (s *Server) serveTLS(ctx context.Context, conn *tls.Conn, client netip.AddrPort) {
	limited, cancel := context.WithTimeout(ctx, s.cfg.IdleTimeout)
	err := conn.HandshakeContext(limited)
	cancel()
	if err != nil {
		conn.Close()
		if ctx.Err() == nil {
			s.handshakeFailures.Add(1)
			s.cfg.Log.Debug("TLS handshake failed", "client", client, "err", err)
		}
		return
	}
	s.serveConn(ctx, conn, client, byTLS)
}

package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
)

// dotProtocol is the name of DNS over TLS in the handshake (ALPN). A client that offers only other
// protocols, such as a browser that was directed here, is refused.
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

// TLSAddrs returns the addresses on which the server listens for DNS over TLS.
func (s *Server) TLSAddrs() []string {
	var addrs []string
	for _, lis := range s.tls {
		addrs = append(addrs, lis.Addr().String())
	}
	return addrs
}

// serveTLS serves a connection after its handshake. The handshake, like a question, must be
// complete within the idle timeout.
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

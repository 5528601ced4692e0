package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// TLS returns the settings of a client that connects to a server of the given role, for protocols
// with their own TLS.
func (s *Source) TLS(role Role) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // host names are not looked at; VerifyConnection looks at everything else
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &s.current.Load().cert, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error { return s.current.Load().verifyServer(state, role) },
	}
}

// verifyServer returns an error unless the server's certificate is valid and has the role.
func (m *keyMaterial) verifyServer(state tls.ConnectionState, role Role) error {
	leaf := state.PeerCertificates[0] // the handshake fails without a certificate
	id, idErr := FromCertificate(leaf)
	server := fmt.Sprintf("the server's certificate (%s)", leaf.Subject)
	if idErr == nil {
		server = fmt.Sprintf("the server's certificate (%s)", id)
	}
	var others [][]byte
	for _, cert := range state.PeerCertificates[1:] {
		others = append(others, cert.Raw)
	}
	err := m.verify(leaf, others, time.Now(), x509.ExtKeyUsageServerAuth)
	if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
		return fmt.Errorf("%s was issued by another authority than those in tls-ca: both ends need certificates of one", server)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s %w", server, err)
	case idErr != nil:
		return fmt.Errorf("%s %w", server, idErr)
	case id.TrustDomain != m.id.TrustDomain:
		return fmt.Errorf("%s is of another trust domain than %s", server, m.id.TrustDomain)
	case id.Role != role:
		return fmt.Errorf("%s is not of the role %s: look at the address, or at what the server was given as tls-cert", server, role)
	}
	return nil
}

// DialOption returns the option for dialing a server of the given role. If s is nil, the connection
// is not encrypted.
func (s *Source) DialOption(role Role) grpc.DialOption {
	if s == nil {
		return grpc.WithTransportCredentials(insecure.NewCredentials())
	}
	return grpc.WithTransportCredentials(&clientCredentials{credentials.NewTLS(s.TLS(role)), s})
}

// clientCredentials are gRPC credentials with errors that include the remedy.
type clientCredentials struct {
	credentials.TransportCredentials
	source *Source
}

// ClientHandshake implements credentials.TransportCredentials.
func (c *clientCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, c.source.Explain(err)
	}
	return &explainingConn{conn, c.source}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c *clientCredentials) Clone() credentials.TransportCredentials {
	return &clientCredentials{c.TransportCredentials.Clone(), c.source}
}

// explainingConn explains why a server closed the connection. In TLS 1.3 the server verifies our
// certificate after our side of the handshake is done, so its refusal is the error of a later Read
// and not of the handshake.
type explainingConn struct {
	net.Conn
	source *Source
}

// Read implements net.Conn.
func (c *explainingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		err = c.source.Explain(err)
	}
	return n, err
}

// Write implements net.Conn. The error of a write on a closed connection does not contain the
// reason, but the server's last message can still be read.
func (c *explainingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil {
		return n, nil
	}
	if c.Conn.SetReadDeadline(time.Now().Add(time.Second)) == nil {
		if _, why := c.Read(make([]byte, 1)); errors.As(why, new(*Refused)) {
			err = why
		}
	}
	return n, err
}

// ServerCredentials returns the credentials of a server. Every client must have a certificate of a
// trusted authority. Caller returns the client's identity.
func (s *Source) ServerCredentials() credentials.TransportCredentials {
	return &serverCredentials{credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			m := s.current.Load()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{m.cert},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: m.roots,
				SessionTicketsDisabled: true, // so that every connection is verified
			}, nil
		},
	}), s}
}

// serverCredentials are gRPC credentials that also determine the identity of the caller.
type serverCredentials struct {
	credentials.TransportCredentials
	source *Source
}

// caller is the client at the other end of a server's connection.
type caller struct {
	credentials.TLSInfo
	id  ID
	err error // the reason why it has no identity
}

// ServerHandshake implements credentials.TransportCredentials.
func (c *serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		c.source.metrics.refusals.Inc()
		if c.source.logLimit.allow() {
			c.source.opts.Log.Warn("connection refused", "peer", raw.RemoteAddr().String(), "err", err)
		}
		return nil, nil, err
	}
	state, _ := info.(credentials.TLSInfo)
	client := caller{TLSInfo: state}
	if client.id, client.err = FromCertificate(state.State.PeerCertificates[0]); client.err == nil && client.id.TrustDomain != c.source.ID().TrustDomain {
		client.err = fmt.Errorf("is %s, and this is the trust domain %s", client.id, c.source.ID().TrustDomain)
	}
	return conn, client, nil
}

// Clone implements credentials.TransportCredentials.
func (c *serverCredentials) Clone() credentials.TransportCredentials {
	return &serverCredentials{c.TransportCredentials.Clone(), c.source}
}

var errMissing = errors.New("is missing")

// Caller returns the identity of the client that made the call of ctx. The error is the reason why
// the client has no identity in this trust domain.
func Caller(ctx context.Context) (ID, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ID{}, errMissing
	}
	client, ok := p.AuthInfo.(caller)
	if !ok {
		return ID{}, errMissing
	}
	return client.id, client.err
}

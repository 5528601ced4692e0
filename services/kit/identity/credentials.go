package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// TLS returns the settings of a client that connects to a server of the given role, for protocols
// with their own TLS.
func (s *Source) TLS(role Role) *tls.Config { return s.clientTLS(ID{Role: role}) }

// clientTLS returns the settings of a client that connects to the given server. If server has no name,
// the client accepts every server of its role.
func (s *Source) clientTLS(server ID) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // #nosec G402 -- host names are not looked at; VerifyConnection looks at everything else
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &s.current.Load().cert, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := s.current.Load().verifyServer(state, server); err != nil {
				return err
			}
			return s.checkServer(state)
		},
	}
}

// verifyServer returns an error unless the server's certificate is valid and has the role and, if
// one is wanted, the name.
func (m *keyMaterial) verifyServer(state tls.ConnectionState, want ID) error {
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
	case id.Role != want.Role:
		return fmt.Errorf("%s is not of the role %s: look at the address, or at what the server was given as tls-cert", server, want.Role)
	case want.Name != "" && id.Name != want.Name:
		return fmt.Errorf("%s is not %s: the address leads to another server", server, want.Path())
	}
	return nil
}

// checkServer returns an error if a server's certificate is denied.
func (s *Source) checkServer(state tls.ConnectionState) error {
	leaf, cert := serverOf(state)
	if err := s.denied.check(cert, atConnection); err != nil {
		return fmt.Errorf("the server's certificate (%s, serial number %x) %w", cert.path, leaf.SerialNumber, err)
	}
	return nil
}

// serverOf returns the certificate of the server at the other end of a connection.
func serverOf(state tls.ConnectionState) (*x509.Certificate, certificate) {
	leaf := state.PeerCertificates[0]
	id, _ := FromCertificate(leaf) //nolint:errcheck // verifyServer has made sure that there is one
	return leaf, certificateOf(leaf, id)
}

// DialOption returns the option for dialing a server of the given role. If s is nil, the connection
// is not encrypted.
func (s *Source) DialOption(role Role) grpc.DialOption { return s.dialOption(ID{Role: role}) }

// AgentDialOption returns the option for dialing the agent of the given node. It refuses the agents
// of other nodes, because agents report their addresses themselves, and a report may be wrong.
func (s *Source) AgentDialOption(node string) grpc.DialOption {
	return s.dialOption(ID{Role: NodeAgent, Name: node})
}

func (s *Source) dialOption(server ID) grpc.DialOption {
	if s == nil {
		return grpc.WithTransportCredentials(insecure.NewCredentials())
	}
	return grpc.WithTransportCredentials(&clientCredentials{credentials.NewTLS(s.clientTLS(server)), s})
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
	guarded := &explainingConn{Conn: conn, source: c.source, unguard: func() {}}
	if state, ok := info.(credentials.TLSInfo); ok {
		_, cert := serverOf(state.State)
		guarded.unguard = c.source.denied.guard(cert, atConnection, func(error) { _ = conn.Close() })
	}
	return guarded, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c *clientCredentials) Clone() credentials.TransportCredentials {
	return &clientCredentials{c.TransportCredentials.Clone(), c.source}
}

// explainingConn explains why a server closed the connection. In TLS 1.3 the server verifies our
// certificate after our side of the handshake is done, so its refusal is the error of a later Read
// and not of the handshake. It is closed when the server's certificate is denied.
type explainingConn struct {
	net.Conn
	source  *Source
	unguard func()
}

// Close implements net.Conn.
func (c *explainingConn) Close() error {
	c.unguard()
	return c.Conn.Close()
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
	return &serverCredentials{credentials.NewTLS(s.MutualTLS()), s}
}

// MutualTLS returns the settings of a server that requires from every client a certificate of a
// trusted authority, for protocols other than gRPC. Client returns the client's identity.
func (s *Source) MutualTLS() *tls.Config { return s.clientsTLS(tls.RequireAndVerifyClientCert) }

// OptionalTLS returns the settings of a server that also accepts clients without a certificate, because
// they prove their identity in another way. A certificate that a client sends is verified as with
// MutualTLS. Client returns an error for a client without a certificate.
func (s *Source) OptionalTLS() *tls.Config { return s.clientsTLS(tls.VerifyClientCertIfGiven) }

func (s *Source) clientsTLS(clients tls.ClientAuthType) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			m := s.current.Load()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{m.cert},
				ClientAuth: clients, ClientCAs: m.roots,
				VerifyConnection:       s.checkClient,
				SessionTicketsDisabled: true, // so that every connection is verified
			}, nil
		},
	}
}

// checkClient returns an error if a client's certificate is denied when its connection begins, or
// comes from an issuer that may not give the client's role. It returns nil for a client without one.
func (s *Source) checkClient(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	leaf := state.PeerCertificates[0]
	if err := CheckIssuer(state.VerifiedChains); err != nil {
		return fmt.Errorf("the client's certificate (%s) %w", leaf.Subject, err)
	}
	id, _ := FromCertificate(leaf) //nolint:errcheck // serial numbers of certificates without an identity are looked up too
	if err := s.denied.check(certificateOf(leaf, id), atConnection); err != nil {
		return fmt.Errorf("the client's certificate (%s, serial number %x) %w", id, leaf.SerialNumber, err)
	}
	return nil
}

// Client returns the identity of the client that sends a request on a connection with MutualTLS or
// OptionalTLS. The error is the reason why the client has no identity in this trust domain, or why its
// certificate is denied by now.
func (s *Source) Client(state tls.ConnectionState) (ID, error) {
	if len(state.PeerCertificates) == 0 {
		return ID{}, errMissing
	}
	id, err := s.identify(state)
	if err == nil {
		err = s.denied.check(certificateOf(state.PeerCertificates[0], id), atCall)
	}
	return id, err
}

// identify returns the identity of the client at the other end of a connection.
func (s *Source) identify(state tls.ConnectionState) (ID, error) {
	id, err := FromCertificate(state.PeerCertificates[0])
	if err == nil && id.TrustDomain != s.ID().TrustDomain {
		err = fmt.Errorf("is %s, and this is the trust domain %s", id, s.ID().TrustDomain)
	}
	return id, err
}

// serverCredentials are gRPC credentials that also determine the identity of the caller.
type serverCredentials struct {
	credentials.TransportCredentials
	source *Source
}

// caller is the client at the other end of a server's connection.
type caller struct {
	credentials.TLSInfo
	conn   net.Conn
	id     ID
	err    error // the reason why it has no identity
	cert   certificate
	denied *DenyList
	// allowedBy is the last set of denials that did not deny the certificate.
	allowedBy atomic.Pointer[denySet]
}

// ServerHandshake implements credentials.TransportCredentials.
func (c *serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		c.source.Refused(raw.RemoteAddr().String(), err)
		return nil, nil, err
	}
	state, _ := info.(credentials.TLSInfo)
	client := &caller{TLSInfo: state, conn: raw, denied: c.source.denied}
	client.id, client.err = c.source.identify(state.State)
	client.cert = certificateOf(state.State.PeerCertificates[0], client.id)
	return conn, client, nil
}

// Clone implements credentials.TransportCredentials.
func (c *serverCredentials) Clone() credentials.TransportCredentials {
	return &serverCredentials{c.TransportCredentials.Clone(), c.source}
}

var errMissing = errors.New("is missing")

// Caller returns the identity that the call of ctx was made for: the represented identity if the client
// acts on behalf of another one, otherwise the client's own. It returns an error if the client has no
// identity in this trust domain.
func Caller(ctx context.Context) (ID, error) {
	if id, ok := ctx.Value(representedKey{}).(ID); ok {
		return id, nil
	}
	client, ok := callerOf(ctx)
	if !ok {
		return ID{}, errMissing
	}
	return client.id, client.err
}

// Expiry returns when the certificate of the client that made the call of ctx expires. ok is false
// if the call came without a certificate.
func Expiry(ctx context.Context) (end time.Time, ok bool) {
	cert, ok := Presented(ctx)
	if !ok {
		return time.Time{}, false
	}
	return cert.NotAfter, true
}

// Serial returns the serial number, in hexadecimal digits, of the certificate of the client that
// made the call of ctx. It is empty if the call came without a certificate.
func Serial(ctx context.Context) string {
	client, ok := callerOf(ctx)
	if !ok {
		return ""
	}
	return client.cert.serial
}

// SerialOf returns the serial number of a certificate in hexadecimal digits.
func SerialOf(certificate *x509.Certificate) string {
	const hexadecimal = 16
	return certificate.SerialNumber.Text(hexadecimal)
}

// Presented returns the certificate of the client that made the call of ctx. ok is false if the call
// came without a certificate.
func Presented(ctx context.Context) (cert *x509.Certificate, ok bool) {
	client, ok := callerOf(ctx)
	if !ok {
		return nil, false
	}
	return client.State.PeerCertificates[0], true
}

// Disconnect closes the connection of the client that made the call of ctx, if the client has a
// certificate. All its calls on that connection fail.
func Disconnect(ctx context.Context) {
	if client, ok := callerOf(ctx); ok {
		_ = client.conn.Close() // the transport reports the end of the connection
	}
}

func callerOf(ctx context.Context) (*caller, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	client, ok := p.AuthInfo.(*caller)
	return client, ok
}

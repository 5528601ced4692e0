package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"portolan.dev/services/balancer"
)

// sessionsToBackends is the number of sessions that are kept to resume them.
const sessionsToBackends = 256

// Client returns the configuration of TLS with the backends of a service in a namespace, or nil if the service
// speaks no TLS to its backends. If the settings name certificates of authorities, the configuration verifies
// that one of them has issued a backend's certificate, at the time of the handshake, and that the certificate has
// the server name of the settings if there is one. Otherwise it verifies no backend.
func (s *Store) Client(namespace string, settings *balancer.Settings) *tls.Config {
	if p := settings.BackendProtocol; p != balancer.BackendSSL && p != balancer.BackendHTTPS {
		return nil
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: settings.BackendServerName, ClientSessionCache: tls.NewLRUClientSessionCache(sessionsToBackends),
		InsecureSkipVerify: true, // #nosec G402 -- VerifyConnection verifies if the service asks for it
	}
	if ref := settings.BackendCA; ref != nil {
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return verify(state, s.roots(namespace, *ref), settings.BackendServerName)
		}
	}
	return config
}

// verify verifies the certificate of a backend. An empty name is not compared.
func verify(state tls.ConnectionState, roots *x509.CertPool, name string) error {
	if roots == nil {
		return errors.New("the service's certificates of authorities for backends are not there")
	}
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	if _, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name}); err != nil {
		return fmt.Errorf("the backend's certificate: %w", err)
	}
	return nil
}

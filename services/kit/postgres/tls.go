package postgres

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/jackc/pgx/v5"

	"portolan.dev/services/kit/identity"
)

// reloadCertificates makes new connections use the present content of the files of the client certificate
// (sslcert, sslkey) and of the authorities (sslrootcert). pgx reads these files once, when it
// parses the DSN, but a daemon runs longer than certificates are valid. If the files cannot be
// used, the first content is used.
func reloadCertificates(dsn string, config *pgx.ConnConfig) {
	renew(dsn, config.TLSConfig)
	for _, fallback := range config.Fallbacks {
		renew(dsn, fallback.TLSConfig)
	}
}

func renew(dsn string, config *tls.Config) {
	if config == nil {
		return
	}
	first := config.Clone()
	current := func() *tls.Config {
		if now, err := pgx.ParseConfig(dsn); err == nil {
			return cmp.Or(now.TLSConfig, first)
		}
		return first
	}
	if len(first.Certificates) > 0 {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if now := current(); len(now.Certificates) > 0 {
				return &now.Certificates[0], nil
			}
			return &first.Certificates[0], nil
		}
	}
	if first.InsecureSkipVerify && first.VerifyPeerCertificate == nil {
		return // the DSN asks for no verification
	}
	config.InsecureSkipVerify, config.VerifyPeerCertificate = true, nil // #nosec G402 -- VerifyConnection does the same checks
	config.VerifyConnection = func(state tls.ConnectionState) error { return verifyServer(state, first.ServerName, current()) }
}

// verifyServer returns an error unless config, which was read anew, accepts the server. host is the
// server of this connection, which need not be the first one of the DSN.
func verifyServer(state tls.ConnectionState, host string, config *tls.Config) error {
	if config.VerifyPeerCertificate != nil { // verify-ca: any host
		host = ""
	}
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	chains, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: config.RootCAs, Intermediates: between, DNSName: host})
	if err != nil {
		return err
	}
	if err := identity.CheckIssuer(chains); err != nil {
		return fmt.Errorf("the certificate of the Postgres server %w", err)
	}
	return nil
}

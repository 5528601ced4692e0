package postgres

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"

	"github.com/jackc/pgx/v5"
)

// renewing makes new connections use the client certificate (sslcert, sslkey) and the authorities (sslrootcert) that are in the files then: pgx reads
// them when it reads the DSN, and neither lives as long as a registry. Files that cannot be used leave what was there at first.
func renewing(dsn string, config *pgx.ConnConfig) {
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
	config.InsecureSkipVerify, config.VerifyPeerCertificate = true, nil // VerifyConnection does what they would
	config.VerifyConnection = func(state tls.ConnectionState) error { return verifyServer(state, first.ServerName, current()) }
}

// verifyServer returns an error unless config, read anew, accepts the server. host is the server that this connection is for, which need not be the
// first one of the DSN.
func verifyServer(state tls.ConnectionState, host string, config *tls.Config) error {
	if config.VerifyPeerCertificate != nil { // verify-ca: any host
		var chain [][]byte
		for _, cert := range state.PeerCertificates {
			chain = append(chain, cert.Raw)
		}
		return config.VerifyPeerCertificate(chain, nil)
	}
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: config.RootCAs, Intermediates: between, DNSName: host})
	return err
}

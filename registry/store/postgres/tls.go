package postgres

import (
	"crypto/tls"

	"github.com/jackc/pgx/v5"
)

// renewing makes new connections use the client certificate (sslcert, sslkey) that is in the files then: pgx reads them when it reads the DSN, and
// a certificate does not live as long as a registry. Files that cannot be used leave the one from before.
func renewing(dsn string, config *pgx.ConnConfig) {
	renew(dsn, config.TLSConfig)
	for _, fallback := range config.Fallbacks {
		renew(dsn, fallback.TLSConfig)
	}
}

func renew(dsn string, config *tls.Config) {
	if config == nil || len(config.Certificates) == 0 {
		return
	}
	old := &config.Certificates[0]
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if now, err := pgx.ParseConfig(dsn); err == nil && now.TLSConfig != nil && len(now.TLSConfig.Certificates) > 0 {
			return &now.TLSConfig.Certificates[0], nil
		}
		return old, nil
	}
}

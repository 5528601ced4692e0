package daemon

import (
	"fmt"
	"strings"

	"portolan.dev/services/kit/identity"
)

// TLS holds the settings of a program's certificate. A configuration embeds it.
type TLS struct {
	TLSCert     string `flag:"tls-cert" usage:"file of the certificate (PEM); if set, all connections use mutual TLS, including the one to NATS"`
	TLSKey      string `flag:"tls-key" usage:"file of the certificate's private key (PEM)"`
	TLSCA       string `flag:"tls-ca" usage:"file of the trusted certificate authorities (PEM)"`
	TrustDomain string `flag:"trust-domain" usage:"trust domain of all certificates; empty: that of this one"`
}

// Validate returns an error if only some of the three files are given.
func (t *TLS) Validate() error {
	var given, missing []string
	for _, one := range []struct{ name, value string }{{"tls-cert", t.TLSCert}, {"tls-key", t.TLSKey}, {"tls-ca", t.TLSCA}} {
		if one.value == "" {
			missing = append(missing, one.name)
		} else {
			given = append(given, one.name)
		}
	}
	if len(given) > 0 && len(missing) > 0 {
		return fmt.Errorf("%s: given without %s; TLS needs all three", strings.Join(given, ", "), strings.Join(missing, " and "))
	}
	return nil
}

// Identity opens the certificate of these settings. It returns nil if none is configured. It sets
// the Files of options.
func (t *TLS) Identity(options identity.Options) (*identity.Source, error) {
	if t.TLSCert == "" {
		return nil, nil
	}
	options.Files = identity.Files{Cert: t.TLSCert, Key: t.TLSKey, CA: t.TLSCA, TrustDomain: t.TrustDomain}
	return identity.Open(options)
}

package spec

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
)

// The types of Secrets that have a meaning. Data of other types is not looked at.
const (
	SecretTypeOpaque = "Opaque"
	SecretTypeTLS    = "kubernetes.io/tls" // #nosec G101 -- the name of a type
)

// The names of the data of a Secret of type SecretTypeTLS.
const (
	SecretCert = "tls.crt"
	SecretKey  = "tls.key"
	SecretCA   = "ca.crt"
)

// DefaultSecret sets the type.
func DefaultSecret(secret *corev1.Secret) {
	secret.Type = cmp.Or(secret.GetType(), SecretTypeOpaque)
}

// ValidateSecret checks a new Secret. No violation has a part of the data in it, because errors are
// logged.
func ValidateSecret(secret *corev1.Secret, _ Rules) apierr.Violations {
	var c checks
	c.text("type", secret.GetType(), maxReference)
	for _, name := range slices.Sorted(maps.Keys(secret.GetData())) {
		c.syntax("data", name, dataName(name))
	}
	if secret.GetType() == SecretTypeTLS {
		checkCertificate(&c, secret.GetData())
	}
	return c.found
}

// ValidateSecretUpdate checks a Secret that is to replace another. The type cannot change, because edges
// would lose a certificate without an error.
func ValidateSecretUpdate(updated, old *corev1.Secret, rules Rules) apierr.Violations {
	var c checks
	if updated.GetType() != old.GetType() {
		c.immutable("type", updated.GetType())
	}
	return append(c.found, ValidateSecret(updated, rules)...)
}

// checkCertificate checks the data of a certificate with its key. The dates do not matter: a new
// certificate is often stored before it is valid.
func checkCertificate(c *checks, data map[string][]byte) {
	_, crtErr := ParseCertificates(data[SecretCert])
	crt, key := dataField(SecretCert), dataField(SecretKey)
	switch {
	case len(data[SecretCert]) == 0:
		c.required(crt, "the certificate, PEM, perhaps followed by intermediate ones")
	case crtErr != nil:
		c.found.Add(crt, apierr.ReasonInvalid, "invalid value: %s", crtErr)
	}
	if len(data[SecretKey]) == 0 {
		c.required(key, "the key of the certificate, PEM")
	} else if len(c.found) == 0 {
		if _, err := tls.X509KeyPair(data[SecretCert], data[SecretKey]); err != nil {
			c.found.Add(key, apierr.ReasonInvalid, "invalid value: cannot be used with %s: %s", crt, err)
		}
	}
	if ca, ok := data[SecretCA]; ok {
		if _, err := ParseCertificates(ca); err != nil {
			c.found.Add(dataField(SecretCA), apierr.ReasonInvalid, "invalid value: %s", err)
		}
	}
}

// ParseCertificates parses one or more certificates in PEM. Its errors have no part of the text.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(all)+1, err)
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, errors.New("has no certificate in PEM")
	}
	return all, nil
}

func dataField(name string) string { return fmt.Sprintf("data[%s]", name) }

// dataName checks a name of a Secret's data.
func dataName(name string) string {
	odd := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	})
	if name == "" || len(name) > maxSubdomain || odd >= 0 || name == "." || strings.HasPrefix(name, "..") {
		return "must be at most 253 letters, digits, '-', '_' or '.', and not begin with two dots (such as \"tls.crt\")"
	}
	return ""
}

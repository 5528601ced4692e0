package printer

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

// describeSecret prints the sizes of the data, and the fields of a certificate.
func describeSecret(d description, s *corev1.Secret, related Related) {
	d.line("Type", "%s", s.GetType())
	if cert := certificateOf(s); cert != nil {
		d.line("Subject", "%s", cert.Subject)
		d.line("Issuer", "%s", cert.Issuer)
		d.lines("Names", certificateNames(cert))
		d.line("Valid from", "%s", cert.NotBefore.UTC().Format(time.RFC3339))
		d.line("Expires", "%s", expiry(cert, related.Now))
	}
	var sizes []string
	for _, name := range slices.Sorted(maps.Keys(s.GetData())) {
		sizes = append(sizes, fmt.Sprintf("%s: %d bytes", name, len(s.GetData()[name])))
	}
	d.lines("Data", sizes)
}

// certificateOf returns the certificate in a Secret, or nil if it has none.
func certificateOf(s *corev1.Secret) *x509.Certificate {
	if s.GetType() != spec.SecretTypeTLS {
		return nil
	}
	chain, err := spec.ParseCertificates(s.GetData()[spec.SecretCert])
	if err != nil {
		return nil
	}
	return chain[0]
}

// certificateNames returns the names and addresses that a certificate is for.
func certificateNames(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// expiry returns when a certificate expires, and whether it has.
func expiry(cert *x509.Certificate, now time.Time) string {
	text := cert.NotAfter.UTC().Format(time.RFC3339)
	if now.After(cert.NotAfter) {
		return text + " (expired)"
	}
	return text
}

// secretColumns are the columns of Secrets. None has any of the data.
func secretColumns() []column {
	return []column{
		name,
		columnOf("TYPE", func(s *corev1.Secret) string { return s.GetType() }),
		columnOf("DATA", func(s *corev1.Secret) string { return fmt.Sprint(len(s.GetData())) }),
		age,
		wide(columnOf("NAMES", func(s *corev1.Secret) string {
			if cert := certificateOf(s); cert != nil {
				return shorten(certificateNames(cert))
			}
			return ""
		})),
		wide(columnOf("EXPIRES", func(s *corev1.Secret) string {
			if cert := certificateOf(s); cert != nil {
				return cert.NotAfter.UTC().Format(time.RFC3339)
			}
			return ""
		})),
	}
}

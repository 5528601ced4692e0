package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
)

// Renewing lists the roles that have their certificates renewed by a registry. Certificates of all
// other roles come from the authority itself.
func Renewing() []Role {
	return []Role{Registry, Allocator, EndpointCtl, LBCtl, DNSSvc, NodeAgent, Edge, KubeAPI, Workload, Registrar, Monitor}
}

// Renews reports whether certificates of a role are renewed by a registry.
func Renews(role Role) bool { return slices.Contains(Renewing(), role) }

// issuerPath is the path of the URI SAN of an issuer's certificate. It is no role.
const issuerPath = "/issuer"

// IssuerURI returns the URI SAN that marks the certificate of an issuer.
func IssuerURI(trustDomain string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: issuerPath}
}

// IsIssuer reports whether a certificate of an authority is an issuer's.
func IsIssuer(authority *x509.Certificate) bool {
	return slices.ContainsFunc(authority.URIs, func(uri *url.URL) bool { return uri.Scheme == "spiffe" && uri.Path == issuerPath })
}

// CheckIssuer returns an error if a certificate with the given verified chains comes from an issuer
// only and has a role that issuers may not give. Verification that does not use a Source, such as a
// database driver's, calls it.
func CheckIssuer(chains [][]*x509.Certificate) error {
	byIssuer := func(chain []*x509.Certificate) bool { return IsIssuer(chain[len(chain)-1]) }
	if len(chains) == 0 {
		return errors.New("has no chain to a trusted authority")
	}
	if slices.ContainsFunc(chains, func(chain []*x509.Certificate) bool { return !byIssuer(chain) }) {
		return nil
	}
	id, err := FromCertificate(chains[0][0])
	if err != nil {
		return err
	}
	if !Renews(id.Role) {
		return fmt.Errorf("is %s and comes from the issuer of renewals, which gives the roles %s only: portolan certs issue makes it from the authority", id, words(Renewing()))
	}
	return nil
}

// Lineage returns the serial number, in hexadecimal digits, of the first certificate of the row of
// renewals that led to this one, or of the certificate itself if it renews none. A list of denied
// serial numbers has to compare it too, because a thief of a key may have renewed its certificate.
func Lineage(cert *x509.Certificate) string {
	if cert.Subject.SerialNumber != "" {
		return cert.Subject.SerialNumber
	}
	return SerialOf(cert)
}

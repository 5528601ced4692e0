package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"

	"portolan.dev/services/kit/identity"
)

// Pair is a certificate and its private key, both in PEM.
type Pair struct{ Cert, Key []byte }

// Authority issues certificates of one trust domain.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pair Pair
}

// New returns an authority with a new key and a self-signed certificate.
func New(trustDomain string, lifetime time.Duration) (*Authority, error) {
	return newAuthority("Portolan authority of ", &url.URL{Scheme: "spiffe", Host: trustDomain}, lifetime)
}

// NewIssuer returns an issuer with a new key and a self-signed certificate. An issuer is the authority
// of the registries. It issues certificates only of the roles that [identity.Renewing] lists, and every
// process refuses its certificates of other roles.
func NewIssuer(trustDomain string, lifetime time.Duration) (*Authority, error) {
	return newAuthority("Portolan issuer of ", identity.IssuerURI(trustDomain), lifetime)
}

func newAuthority(name string, uri *url.URL, lifetime time.Duration) (*Authority, error) {
	trustDomain := uri.Host
	if err := (identity.ID{TrustDomain: trustDomain, Role: identity.Operator}).Validate(); err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: name + trustDomain}, lifetime)
	if err != nil {
		return nil, err
	}
	template.URIs = []*url.URL{uri}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	pair, err := pairOf(cert, key)
	if err != nil {
		return nil, err
	}
	return Load(pair)
}

// Load returns the authority with the given certificate and key.
func Load(pair Pair) (*Authority, error) {
	cert, err := ParseCert(pair.Cert)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(pair.Key)
	if block == nil {
		return nil, errors.New("the key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the key cannot be read: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	switch {
	case !ok || !key.PublicKey.Equal(cert.PublicKey):
		return nil, errors.New("the key does not go with the certificate")
	case !cert.IsCA:
		return nil, errors.New("the certificate is not one of an authority")
	case len(cert.URIs) != 1:
		return nil, errors.New("the certificate names no trust domain: it was not made by portolan certs init")
	}
	return &Authority{cert: cert, key: key, pair: pair}, nil
}

// ParseCert parses the first certificate in PEM data.
func ParseCert(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it has no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// Pair returns the authority's own certificate and key.
func (a *Authority) Pair() Pair { return a.pair }

// TrustDomain returns the trust domain of the authority and of its certificates.
func (a *Authority) TrustDomain() string { return a.cert.URIs[0].Host }

// IsIssuer reports whether the authority is an issuer.
func (a *Authority) IsIssuer() bool { return identity.IsIssuer(a.cert) }

// Expires returns the time until which the authority's certificate is valid.
func (a *Authority) Expires() time.Time { return a.cert.NotAfter }

// Request describes a certificate to issue.
type Request struct {
	ID identity.ID
	// Hosts are the host names and addresses of a server, for clients that verify them.
	Hosts    []string
	Lifetime time.Duration
	// Lineage is the serial number, in hexadecimal digits, of the first certificate of a row of
	// renewals. It is empty for a certificate that renews none.
	Lineage string
}

// Issue returns a certificate with a new key. The certificate expires no later than the
// authority's.
func (a *Authority) Issue(r Request) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	cert, err := a.IssueFor(r, &key.PublicKey)
	if err != nil {
		return Pair{}, err
	}
	return pairOf(cert, key)
}

// IssueFor returns a certificate, in PEM, for the public key of a key that its owner made. The
// certificate expires no later than the authority's.
func (a *Authority) IssueFor(r Request, key crypto.PublicKey) ([]byte, error) {
	if err := r.ID.Validate(); err != nil {
		return nil, err
	}
	if r.ID.TrustDomain != a.TrustDomain() {
		return nil, fmt.Errorf("the authority is of the trust domain %s and cannot issue %s", a.TrustDomain(), r.ID)
	}
	if a.IsIssuer() && !identity.Renews(r.ID.Role) {
		return nil, fmt.Errorf("the issuer issues no certificates of the role %s: the authority does (portolan certs issue)", r.ID.Role)
	}
	if public, ok := key.(*ecdsa.PublicKey); !ok || public.Curve != elliptic.P256() {
		return nil, errors.New("the key is not ECDSA P-256")
	}
	// A Postgres server takes the common name as the name of the user, which is the role.
	subject := pkix.Name{CommonName: r.ID.Path(), Organization: []string{r.ID.TrustDomain}, SerialNumber: r.Lineage}
	template, err := newTemplate(subject, r.Lifetime)
	if err != nil {
		return nil, err
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	template.URIs = []*url.URL{r.ID.URI()}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	for _, host := range r.Hosts {
		if ip := net.ParseIP(host); ip != nil { //nolint:forbidigo // certificates hold net.IP
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return sign(template, a.cert, key, a.key)
}

func newTemplate(subject pkix.Name, lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-backdate(lifetime)), NotAfter: now.Add(lifetime)}, nil
}

// backdate returns the time by which a certificate is valid before it is issued: ClockSkew, and a
// tenth of a short lifetime, because certificates are renewed after a part of their validity.
// identity.IssuedAt reverses it.
func backdate(lifetime time.Duration) time.Duration {
	if lifetime > 0 {
		return min(identity.ClockSkew, lifetime/10)
	}
	return identity.ClockSkew
}

func sign(template, parent *x509.Certificate, key crypto.PublicKey, by *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, by)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// pairOf returns a certificate with its key.
func pairOf(cert []byte, key *ecdsa.PrivateKey) (Pair, error) {
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: cert, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})}, nil
}

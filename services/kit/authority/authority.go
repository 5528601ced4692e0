package authority

import (
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

// clockSkew is the largest accepted difference by which other clocks are behind the authority's.
const clockSkew = 5 * time.Minute

// New returns an authority with a new key and a self-signed certificate.
func New(trustDomain string, lifetime time.Duration) (*Authority, error) {
	if err := (identity.ID{TrustDomain: trustDomain, Role: identity.Operator}).Validate(); err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "Portolan authority of " + trustDomain}, lifetime)
	if err != nil {
		return nil, err
	}
	template.URIs = []*url.URL{{Scheme: "spiffe", Host: trustDomain}}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	pair, err := sign(template, template, key, key)
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

// Expires returns the time until which the authority's certificate is valid.
func (a *Authority) Expires() time.Time { return a.cert.NotAfter }

// Request describes a certificate to issue.
type Request struct {
	ID identity.ID
	// Hosts are the host names and addresses of a server, for clients that verify them.
	Hosts    []string
	Lifetime time.Duration
}

// Issue returns a certificate with a new key. The certificate expires no later than the
// authority's.
func (a *Authority) Issue(r Request) (Pair, error) {
	if err := r.ID.Validate(); err != nil {
		return Pair{}, err
	}
	if r.ID.TrustDomain != a.TrustDomain() {
		return Pair{}, fmt.Errorf("the authority is of the trust domain %s and cannot issue %s", a.TrustDomain(), r.ID)
	}
	// A Postgres server takes the common name as the name of the user, which is the role.
	template, err := newTemplate(pkix.Name{CommonName: r.ID.Path(), Organization: []string{r.ID.TrustDomain}}, r.Lifetime)
	if err != nil {
		return Pair{}, err
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
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	return sign(template, a.cert, key, a.key)
}

func newTemplate(subject pkix.Name, lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime)}, nil
}

func sign(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		return Pair{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

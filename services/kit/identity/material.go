package identity

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// Files names the files of a certificate. All are PEM.
type Files struct {
	Cert string // the certificate, followed by intermediate ones if there are any
	Key  string // its private key
	CA   string // certificates of the trusted authorities
	// TrustDomain is the required trust domain of all certificates. The default is the trust domain
	// of the certificate.
	TrustDomain string
}

// keyMaterial is the parsed contents of the files.
type keyMaterial struct {
	id    ID
	cert  tls.Certificate
	leaf  *x509.Certificate
	roots *x509.CertPool
	sum   [sha256.Size]byte // of the files
	// renewed reports whether the certificate is one that a registry renewed, and not the
	// configured one.
	renewed bool
}

// name returns the identity of the certificate, or its subject if it has no identity.
func (m *keyMaterial) name() string {
	if m.id == (ID{}) {
		return m.leaf.Subject.String()
	}
	return m.id.String()
}

// contents are the unparsed contents of the files, and the renewed certificate with its key, in one
// PEM text, if there is one.
type contents struct{ cert, key, ca, renewed []byte }

func (f Files) read() (c contents, err error) {
	for _, one := range []struct {
		flag, path string
		into       *[]byte
	}{{"tls-cert", f.Cert, &c.cert}, {"tls-key", f.Key, &c.key}, {"tls-ca", f.CA, &c.ca}} {
		if one.path == "" {
			return c, fmt.Errorf("%s: not given; TLS needs tls-cert, tls-key and tls-ca together (portolan certs issue makes them)", one.flag)
		}
		if *one.into, err = os.ReadFile(one.path); err != nil {
			return c, fmt.Errorf("%s: %w", one.flag, err)
		}
	}
	return c, nil
}

func (c contents) sum() (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range [][]byte{c.cert, c.key, c.ca, c.renewed} {
		one := sha256.Sum256(part)
		h.Write(one[:])
	}
	h.Sum(sum[:0])
	return sum
}

// parse parses and verifies the contents of the files. Its errors are one line and include the
// remedy. With the error of a certificate that can be used at another time only, parse returns the
// certificate too.
func (f Files) parse(c contents, role Role, now time.Time) (*keyMaterial, error) {
	m := &keyMaterial{roots: x509.NewCertPool(), sum: c.sum()}
	if !m.roots.AppendCertsFromPEM(c.ca) {
		return nil, fmt.Errorf("tls-ca %s: has no certificate in PEM", f.CA)
	}
	if err := f.parsePair(m, c); err != nil {
		return nil, err
	}
	outdated := checkValidity(m.leaf, now)
	if outdated != nil {
		now = m.leaf.NotAfter // all else is verified
	}
	err := m.verify(m.leaf, m.cert.Certificate[1:], now, x509.ExtKeyUsageAny)
	if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
		return nil, fmt.Errorf("tls-cert %s: was not issued by the authority in tls-ca %s: use the ca.crt that came with it", f.Cert, f.CA)
	}
	if err != nil {
		return nil, fmt.Errorf("tls-cert %s: %w", f.Cert, cmp.Or(outdated, err))
	}
	if m.id, err = FromCertificate(m.leaf); err != nil {
		return nil, fmt.Errorf("tls-cert %s: %w", f.Cert, err)
	}
	switch {
	case outdated != nil:
		return m, fmt.Errorf("tls-cert %s: %w", f.Cert, outdated)
	case f.TrustDomain != "" && f.TrustDomain != m.id.TrustDomain:
		return nil, fmt.Errorf("tls-cert %s: is %s, not of the trust domain %s: name the right one by trust-domain, or use another certificate", f.Cert, m.id, f.TrustDomain)
	case role != "" && role != m.id.Role:
		return nil, fmt.Errorf("tls-cert %s: is %s, not of the role %s: make one by portolan certs issue %s", f.Cert, m.id, role, example(role))
	}
	return m, nil
}

// example returns the path with which a certificate of the role is requested.
func example(role Role) string {
	if role == NodeAgent || role == Edge {
		return string(role) + "/NODE"
	}
	return string(role)
}

// parsePair parses the certificate and its key.
func (f Files) parsePair(m *keyMaterial, c contents) (err error) {
	if block, _ := pem.Decode(c.cert); block == nil {
		return fmt.Errorf("tls-cert %s: has no certificate in PEM", f.Cert)
	}
	if block, _ := pem.Decode(c.key); block == nil {
		return fmt.Errorf("tls-key %s: has no key in PEM", f.Key)
	}
	if m.cert, err = tls.X509KeyPair(c.cert, c.key); err != nil {
		return fmt.Errorf("tls-key %s: does not go with tls-cert %s: issue both together (portolan certs issue); %w", f.Key, f.Cert, err)
	}
	m.leaf = m.cert.Leaf
	return nil
}

// verify returns an error unless a certificate is of a trusted authority and valid now.
func (m *keyMaterial) verify(leaf *x509.Certificate, others [][]byte, now time.Time, usage x509.ExtKeyUsage) error {
	if err := checkValidity(leaf, now); err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, der := range others {
		if cert, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(cert)
		}
	}
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: m.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
	if err != nil {
		return err
	}
	return CheckIssuer(chains)
}

func checkValidity(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("expired on %s: portolan certs renew makes a new one", day(leaf.NotAfter))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("is valid from %s on, and it is %s here: set the clock right", day(leaf.NotBefore), day(now))
	}
	return nil
}

func day(t time.Time) string { return t.UTC().Format(time.RFC3339) }

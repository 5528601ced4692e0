package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

// certificate is the parsed form of a Secret or of a pair of files. It never changes.
type certificate struct {
	source *corev1.Secret // nil for files
	pair   *tls.Certificate
	names  map[string]bool // of the certificate, in lower case
	roots  *x509.CertPool  // certificates of authorities, to verify backends
	err    error           // the reason why there is no pair, or why newer files are not used
}

// fromSecret parses a Secret.
func fromSecret(secret *corev1.Secret) *certificate {
	data := secret.GetData()
	c := parse(data[spec.SecretCert], data[spec.SecretKey])
	c.source, c.roots = secret, poolOf(data[spec.SecretCA])
	return c
}

// parse parses a certificate with its key, PEM.
func parse(cert, key []byte) *certificate {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return &certificate{err: fmt.Errorf("cannot be used: %w", err)}
	}
	c := &certificate{pair: &pair, names: map[string]bool{}}
	for _, name := range pair.Leaf.DNSNames {
		c.names[strings.ToLower(name)] = true
	}
	for _, ip := range pair.Leaf.IPAddresses {
		c.names[ip.String()] = true
	}
	return c
}

// poolOf returns the certificates in a text, or nil if there are none.
func poolOf(text []byte) *x509.CertPool {
	all, err := spec.ParseCertificates(text)
	if err != nil {
		return nil
	}
	pool := x509.NewCertPool()
	for _, one := range all {
		pool.AddCert(one)
	}
	return pool
}

// problem describes the problem of a certificate, or returns "" if it has none. A nil certificate means that there
// is none.
func (c *certificate) problem(now time.Time) string {
	switch {
	case c == nil:
		return "there is none"
	case c.err != nil:
		return c.err.Error()
	case now.After(c.pair.Leaf.NotAfter):
		return "expired on " + day(c.pair.Leaf.NotAfter)
	case now.Before(c.pair.Leaf.NotBefore):
		return "is valid from " + day(c.pair.Leaf.NotBefore) + " on"
	}
	return ""
}

func (c *certificate) validAt(now time.Time) bool {
	return !now.After(c.pair.Leaf.NotAfter) && !now.Before(c.pair.Leaf.NotBefore)
}

func day(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// match is how well a certificate matches the name that a client asks for.
type match int

const (
	another  match = iota // it has other names only
	wildcard              // it has *.example.com for a.example.com
	exact
)

// matches compares the certificate's names with a name in lower case.
func (c *certificate) matches(name string) match {
	if c.names[name] {
		return exact
	}
	if _, rest, ok := strings.Cut(name, "."); ok && c.names["*."+rest] {
		return wildcard
	}
	return another
}

package kittest

import (
	"path/filepath"
	"testing"
	"time"

	"portolan.dev/services/kit/atomicfile"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
)

// Certificates is the certificate authority of a test, with the files of the certificates it has
// issued.
type Certificates struct {
	t         testing.TB
	Authority *authority.Authority
	dir       string
}

// NewCertificates returns an authority of the default trust domain.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	return NewCertificatesOf(t, identity.DefaultTrustDomain)
}

// NewCertificatesOf returns an authority of the given trust domain.
func NewCertificatesOf(t testing.TB, trustDomain string) *Certificates {
	t.Helper()
	a, err := authority.New(trustDomain, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c := &Certificates{t: t, Authority: a, dir: t.TempDir()}
	c.write("ca.crt", a.Pair().Cert)
	return c
}

// CA returns the file of the authority's certificate.
func (c *Certificates) CA() string { return filepath.Join(c.dir, "ca.crt") }

// Issue issues a certificate for an identity such as registry or nodeagent/n1 with the given
// lifetime. Its files replace those of the identity's previous certificate.
func (c *Certificates) Issue(who string, lifetime time.Duration, hosts ...string) identity.Files {
	c.t.Helper()
	id, err := identity.ParsePath(c.Authority.TrustDomain(), who)
	if err != nil {
		c.t.Fatal(err)
	}
	pair, err := c.Authority.Issue(authority.Request{ID: id, Hosts: hosts, Lifetime: lifetime})
	if err != nil {
		c.t.Fatal(err)
	}
	name := id.FileName()
	return identity.Files{Cert: c.write(name+".crt", pair.Cert), Key: c.write(name+".key", pair.Key), CA: c.CA()}
}

func (c *Certificates) write(name string, data []byte) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := atomicfile.WriteFile(path, data, 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// Source opens a new certificate for an identity.
func (c *Certificates) Source(who string) *identity.Source {
	c.t.Helper()
	source, err := identity.Open(identity.Options{Files: c.Issue(who, time.Hour), Log: Logger(c.t)})
	if err != nil {
		c.t.Fatal(err)
	}
	return source
}

package identity

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// PublicOptions are the options of a Public.
type PublicOptions struct {
	Cert, Key string // PEM files; the certificate may be followed by intermediate ones
	// Flags is the prefix of the flags that name the files, such as listen-tls. It is used in
	// errors.
	Flags string
	Log   *slog.Logger
	// Every is the time between two checks of the files; 0 means 5 s.
	Every time.Duration
}

// Public is the certificate of a server for clients that have no certificates and verify the server
// by its host name or address. It may be of any authority, because the clients decide which
// authorities they trust.
type Public struct {
	reloader
	opts PublicOptions
}

// OpenPublic reads the files. Its error is one line.
func OpenPublic(o PublicOptions) (*Public, error) {
	p := &Public{opts: o}
	p.reloader = reloader{read: p.readFiles, parse: p.parseFiles, log: o.Log, every: o.Every}
	if err := p.open(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Public) readFiles() (c contents, err error) {
	if c.cert, err = os.ReadFile(p.opts.Cert); err != nil {
		return c, fmt.Errorf("%s-cert: %w", p.opts.Flags, err)
	}
	if c.key, err = os.ReadFile(p.opts.Key); err != nil {
		return c, fmt.Errorf("%s-key: %w", p.opts.Flags, err)
	}
	return c, nil
}

func (p *Public) parseFiles(c contents) (*keyMaterial, error) {
	if block, _ := pem.Decode(c.key); block == nil {
		return nil, fmt.Errorf("%s-key %s: has no key in PEM", p.opts.Flags, p.opts.Key)
	}
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("%s-cert %s: cannot be used with the key %s: %w", p.opts.Flags, p.opts.Cert, p.opts.Key, err)
	}
	m := &keyMaterial{cert: pair, leaf: pair.Leaf, sum: c.sum()}
	switch now := time.Now(); {
	case now.After(m.leaf.NotAfter):
		err = fmt.Errorf("expired on %s: put a new one there", day(m.leaf.NotAfter))
	case now.Before(m.leaf.NotBefore):
		err = fmt.Errorf("is valid from %s on, and it is %s here: set the clock right", day(m.leaf.NotBefore), day(now))
	default:
		err = hasHosts(m.leaf)
	}
	if err != nil {
		return nil, fmt.Errorf("%s-cert %s: %w", p.opts.Flags, p.opts.Cert, err)
	}
	return m, nil
}

// ServerTLS returns the TLS settings of a server for clients that have no certificates.
func (p *Public) ServerTLS() *tls.Config { return p.serverTLS() }

// ServerTLS returns the TLS settings of a server for clients that have no certificates and verify
// the server by its host name or address. It returns an error if the certificate has neither,
// because no such client could verify it.
func (s *Source) ServerTLS() (*tls.Config, error) {
	if err := hasHosts(s.current.Load().leaf); err != nil {
		return nil, fmt.Errorf("tls-cert %s: %w: give them by portolan certs issue --host", s.opts.Files.Cert, err)
	}
	return s.serverTLS(), nil
}

// serverTLS returns settings that present the current certificate on each new connection. The
// settings themselves do not change, so that clients can resume their sessions.
func (r *reloader) serverTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, // other clients may not support a later version
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &r.current.Load().cert, nil
		},
	}
}

var errNoHosts = errors.New("has no host name and no address, by which clients could verify it")

func hasHosts(leaf *x509.Certificate) error {
	if len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 {
		return errNoHosts
	}
	return nil
}

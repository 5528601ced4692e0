package lab

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

const (
	// authorityFile is the name of the file with the authorities that a machine trusts.
	authorityFile = "ca.crt"
	// validity is the lifetime of a certificate.
	validity = 24 * time.Hour
)

// certificates holds the authorities that the machines of a lab trust, and issues the certificates
// of the machines.
type certificates struct {
	folder   string // files of the issuer, in the layout of portolan certs
	issuer   *authority.Authority
	trusted  []*authority.Authority
	operator identity.Files // files of the tests' certificate
}

// makeCertificates makes the first authority, and the certificate of the tests.
func (l *Lab) makeCertificates() {
	l.Helper()
	c := &l.certificates
	c.folder = l.TempDir()
	if err := c.newAuthority(); err != nil {
		l.Fatal(err)
	}
	c.trusted = []*authority.Authority{c.issuer}
	c.operator = certificateFiles(l.TempDir(), identity.Operator)
	if err := l.issueTestCertificate(); err != nil {
		l.Fatal(err)
	}
	source, err := identity.Open(identity.Options{Files: c.operator, Log: kittest.Logger(l), Every: 100 * time.Millisecond})
	if err != nil {
		l.Fatal(err)
	}
	l.Identity = source
	kittest.Run(l, "the certificate of the tests", source.Run)
}

// newAuthority creates an authority and makes it the issuer of all later certificates.
func (c *certificates) newAuthority() (err error) {
	if c.issuer, err = authority.New(identity.DefaultTrustDomain, validity); err != nil {
		return err
	}
	pair := c.issuer.Pair()
	return errors.Join(replaceFile(filepath.Join(c.folder, authorityFile), pair.Cert, nil), replaceFile(filepath.Join(c.folder, "ca.key"), pair.Key, nil))
}

// certificateFiles returns the paths of a role's certificate, key and authorities in a folder.
func certificateFiles(folder string, role identity.Role) identity.Files {
	return identity.Files{
		Cert: filepath.Join(folder, string(role)+".crt"), Key: filepath.Join(folder, string(role)+".key"), CA: filepath.Join(folder, authorityFile),
	}
}

// replaceFile replaces a file atomically. A nil owner is the user of the tests.
func replaceFile(path string, content []byte, owner *syscall.Credential) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	if owner != nil {
		if err := os.Chown(temporary, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	return os.Rename(temporary, path)
}

// issue writes a new key, and then its certificate. A process that reads the files between the two
// writes detects that key and certificate do not match.
func (c *certificates) issue(id identity.ID, hosts []string, files identity.Files, owner *syscall.Credential) error {
	pair, err := c.issuer.Issue(authority.Request{ID: id, Hosts: hosts, Lifetime: validity})
	if err != nil {
		return err
	}
	return errors.Join(replaceFile(files.Key, pair.Key, owner), replaceFile(files.Cert, pair.Cert, owner))
}

// bundle returns the certificates of all trusted authorities, concatenated.
func (c *certificates) bundle() []byte {
	var all [][]byte
	for _, a := range c.trusted {
		all = append(all, a.Pair().Cert)
	}
	return bytes.Join(all, nil)
}

func (l *Lab) issueTestCertificate() error {
	c := &l.certificates
	id := identity.ID{TrustDomain: identity.DefaultTrustDomain, Role: identity.Operator}
	return errors.Join(replaceFile(c.operator.CA, c.bundle(), nil), c.issue(id, nil, c.operator, nil))
}

// identityOf returns the identity of the process on a machine.
func identityOf(machine string) identity.ID {
	id := identity.ID{TrustDomain: identity.DefaultTrustDomain, Role: identity.Role(programOf(machine))}
	if id.Role.OfNode() {
		id.Name = machine
	}
	return id
}

// owner returns the owner of the machine's files. Nil is the user of the tests.
func (m *Machine) owner() *syscall.Credential {
	if m.id.Role == identity.Postgres {
		return m.lab.user
	}
	return nil
}

// Rotate replaces the certificate and key of the process. The current issuer issues the new
// certificate.
func (m *Machine) Rotate() error {
	err := m.lab.certificates.issue(m.id, []string{m.Addresses[0].String()}, m.files, m.owner())
	return errors.Join(err, m.reload())
}

// updateTrust writes the trusted authorities to the machine's files.
func (m *Machine) updateTrust() error {
	return errors.Join(replaceFile(m.files.CA, m.lab.certificates.bundle(), m.owner()), m.reload())
}

// reload makes NATS and Postgres read their certificate files again. It does nothing for Portolan's
// daemons, which check their files every few seconds.
func (m *Machine) reload() error {
	switch m.id.Role {
	case identity.NATS, identity.Postgres:
		return m.signalMain(syscall.SIGHUP)
	}
	return nil
}

// AwaitRotated waits until the process presents the certificate in its files to new connections.
func (m *Machine) AwaitRotated() error {
	return eventually(func() error {
		want, err := os.ReadFile(m.files.Cert)
		if err != nil {
			return err
		}
		cert, err := authority.ParseCert(want)
		if err != nil {
			return err
		}
		serial, err := m.presentedSerial(m.lab.Identity)
		if err == nil && serial != cert.SerialNumber.String() {
			err = fmt.Errorf("%s presents the certificate with serial number %s, want %s", m.Name, serial, cert.SerialNumber)
		}
		return err
	})
}

// presentedSerial opens a connection with the client's certificate, and returns the serial number
// of the certificate that the process presents. It returns the number even if the process rejects
// the client.
func (m *Machine) presentedSerial(client *identity.Source) (serial string, err error) {
	config := client.TLS(m.id.Role)
	verify := config.VerifyConnection
	// Atomic, because the Postgres client may open another connection to cancel the first, and may
	// return before that connection is closed.
	var presented atomic.Pointer[string]
	config.VerifyConnection = func(state tls.ConnectionState) error {
		serial := state.PeerCertificates[0].SerialNumber.String()
		presented.Store(&serial)
		return verify(state)
	}
	err = m.handshake(config)
	if p := presented.Load(); p != nil {
		serial = *p
	}
	return serial, err
}

// handshake opens a TLS connection to the process, and closes it.
func (m *Machine) handshake(config *tls.Config) error {
	switch m.id.Role {
	case identity.Postgres:
		return m.handshakePostgres(config)
	case identity.NATS:
		nc, err := nats.Connect(natsURL(m), nats.Secure(config), nats.Timeout(2*time.Second), nats.NoReconnect())
		if err == nil {
			nc.Close()
		}
		return err
	}
	config.NextProtos = []string{"h2"}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 2 * time.Second}, "tcp", m.lab.apiAddresses(m.Name), config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// In TLS 1.3 a server rejects a client certificate after the client has finished its part of
	// the handshake. An HTTP/2 server sends the first data, and only to clients that it accepts.
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// AddAuthority makes a new authority the issuer of all later certificates. All processes trust it
// in addition to the earlier authorities. It is the first of the three steps in docs/operations.md:
// trust the new authority, rotate all certificates, remove the old authority.
func (l *Lab) AddAuthority() error {
	c := &l.certificates
	if err := c.newAuthority(); err != nil {
		return err
	}
	c.trusted = append(c.trusted, c.issuer)
	return l.updateAllTrust()
}

// RemoveOldAuthorities makes all processes trust the current issuer only.
func (l *Lab) RemoveOldAuthorities() error {
	c := &l.certificates
	c.trusted = []*authority.Authority{c.issuer}
	return l.updateAllTrust()
}

func (l *Lab) updateAllTrust() error {
	errs := []error{replaceFile(l.certificates.operator.CA, l.certificates.bundle(), nil)}
	for _, m := range l.machines {
		errs = append(errs, m.updateTrust())
	}
	return errors.Join(errs...)
}

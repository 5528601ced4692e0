package certs

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
)

const (
	caCert = "ca.crt"
	caKey  = "ca.key"
	day    = 24 * time.Hour
)

// DefaultLifetime is the default lifetime of a certificate, DefaultAuthorityLifetime the default
// lifetime of the authority.
const (
	DefaultLifetime          = 90 * day
	DefaultAuthorityLifetime = 3650 * day
)

// Certificate is a certificate of a folder.
type Certificate struct {
	Name    string    `json:"name"` // role, or role/name; "ca" is the authority
	ID      string    `json:"id"`   // URI SAN
	Hosts   []string  `json:"hosts,omitempty"`
	Expires time.Time `json:"expires"`
	Cert    string    `json:"cert"` // paths of the files
	Key     string    `json:"key"`
	Written bool      `json:"written"` // by this command
}

// Folder is a folder with an authority.
type Folder struct {
	dir       string
	authority *authority.Authority
}

// Request is a request for a certificate.
type Request struct {
	Role     string // role, or role/name
	Hosts    []string
	Lifetime time.Duration
}

// Init makes an authority and certificates in a folder without an authority. If force is true, it
// replaces an existing authority.
func Init(dir, trustDomain string, lifetime time.Duration, requests []Request, force bool) ([]Certificate, error) {
	made, err := authority.New(trustDomain, lifetime)
	if err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, authority: made}
	for _, name := range []string{caCert, caKey} {
		if !force && exists(f.path(name)) {
			return nil, fmt.Errorf("%s is there already: portolan certs issue adds certificates; --force makes a new authority, and all certificates anew", f.path(name))
		}
	}
	if err := f.check(requests, force); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := f.write(caCert, caKey, made.Pair()); err != nil {
		return nil, err
	}
	ca := Certificate{
		Name: "ca", ID: "spiffe://" + trustDomain, Expires: made.Expires(), Cert: f.path(caCert), Key: f.path(caKey), Written: true,
	}
	issued, err := f.issue(requests)
	return append([]Certificate{ca}, issued...), err
}

// Open opens a folder that has an authority.
func Open(dir string) (*Folder, error) {
	f := &Folder{dir: dir}
	var pair authority.Pair
	for _, one := range []struct {
		name string
		into *[]byte
	}{{caCert, &pair.Cert}, {caKey, &pair.Key}} {
		data, err := os.ReadFile(f.path(one.name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s has no %s: portolan certs init makes an authority; --certs names another folder", dir, one.name)
		}
		if err != nil {
			return nil, err
		}
		*one.into = data
	}
	var err error
	if f.authority, err = authority.Load(pair); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path(caCert), err)
	}
	return f, nil
}

// Issue makes certificates. If one of them cannot be made, it writes none.
func (f *Folder) Issue(requests []Request, force bool) ([]Certificate, error) {
	if err := f.check(requests, force); err != nil {
		return nil, err
	}
	return f.issue(requests)
}

// check returns the errors that keep certificates from being issued.
func (f *Folder) check(requests []Request, force bool) error {
	var errs []error
	for _, r := range requests {
		id, err := identity.ParsePath(f.authority.TrustDomain(), r.Role)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cmp.Or(r.Role, `""`), err))
			continue
		}
		for _, host := range r.Hosts {
			if host == "" || strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:*") != "" {
				errs = append(errs, fmt.Errorf("%s: host %q is no name and no address", r.Role, host))
			}
		}
		cert, key := files(id)
		for _, name := range []string{cert, key} {
			if !force && exists(f.path(name)) {
				errs = append(errs, fmt.Errorf("%s is there already: portolan certs renew %s makes it anew, and --force replaces it", f.path(name), r.Role))
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (f *Folder) issue(requests []Request) ([]Certificate, error) {
	var issued []Certificate
	for _, r := range requests {
		id, err := identity.ParsePath(f.authority.TrustDomain(), r.Role)
		if err != nil {
			return issued, err
		}
		pair, err := f.authority.Issue(authority.Request{ID: id, Hosts: r.Hosts, Lifetime: r.Lifetime})
		if err != nil {
			return issued, err
		}
		cert, key := files(id)
		if err := f.write(cert, key, pair); err != nil {
			return issued, err
		}
		parsed, err := authority.ParseCert(pair.Cert)
		if err != nil {
			return issued, err
		}
		one := f.describe(id, parsed)
		one.Written = true
		issued = append(issued, one)
	}
	return issued, nil
}

// Renew replaces certificates that expire within the given time. The new ones have the same
// lifetime and new keys. If names are given, it renews only these. If force is true, it also renews
// certificates that do not expire soon. It returns all certificates that it examined.
func (f *Folder) Renew(names []string, within time.Duration, force bool) ([]Certificate, error) {
	all, err := f.List()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c Certificate) bool { return c.Name == name }) {
			return nil, fmt.Errorf("%s has no certificate of %s: portolan certs issue %s makes one", f.dir, name, name)
		}
	}
	var looked []Certificate
	for _, one := range all {
		if len(names) > 0 && !slices.Contains(names, one.Name) {
			continue
		}
		if !force && time.Until(one.Expires) > within {
			looked = append(looked, one)
			continue
		}
		old, err := f.read(one.Cert)
		if err != nil {
			return looked, err
		}
		renewed, err := f.issue([]Request{{Role: one.Name, Hosts: one.Hosts, Lifetime: old.NotAfter.Sub(old.NotBefore).Round(time.Hour)}})
		if err != nil {
			return looked, err
		}
		looked = append(looked, renewed...)
	}
	return looked, nil
}

// List returns the certificates of the folder, except for the authority's.
func (f *Folder) List() ([]Certificate, error) {
	paths, err := filepath.Glob(f.path("*.crt"))
	if err != nil {
		return nil, err
	}
	var list []Certificate
	for _, path := range paths {
		if filepath.Base(path) == caCert {
			continue
		}
		cert, err := f.read(path)
		if err != nil {
			return nil, err
		}
		id, err := identity.FromCertificate(cert)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, f.describe(id, cert))
	}
	return list, nil
}

func (f *Folder) read(path string) (*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cert, err := authority.ParseCert(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}

func (f *Folder) describe(id identity.ID, cert *x509.Certificate) Certificate {
	certFile, keyFile := files(id)
	hosts := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return Certificate{Name: id.Path(), ID: id.String(), Hosts: hosts, Expires: cert.NotAfter, Cert: f.path(certFile), Key: f.path(keyFile)}
}

// FilesOf returns the files of the first role for which a folder has a certificate. It does not
// need the authority's key.
func FilesOf(dir string, roles ...identity.Role) (identity.Files, error) {
	var names []string
	for _, role := range roles {
		cert, key := files(identity.ID{Role: role})
		found := identity.Files{Cert: filepath.Join(dir, cert), Key: filepath.Join(dir, key), CA: filepath.Join(dir, caCert)}
		if exists(found.Cert) {
			return found, nil
		}
		names = append(names, cert)
	}
	return identity.Files{}, fmt.Errorf("%s has no %s: portolan certs issue makes them, and --tls-cert, --tls-key and --tls-ca name other files", dir, strings.Join(names, " and no "))
}

// TrustDomain returns the trust domain of the authority.
func (f *Folder) TrustDomain() string { return f.authority.TrustDomain() }

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name) }

// files returns the names of a certificate's files. Role names have no dash, so no two certificates
// share a file.
func files(id identity.ID) (cert, key string) {
	base := strings.ReplaceAll(id.Path(), "/", "-")
	return base + ".crt", base + ".key"
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// write replaces a pair of files, the key first. A program that reads them in between finds a pair
// that does not match, and reads again.
func (f *Folder) write(cert, key string, pair authority.Pair) error {
	if err := f.replace(key, pair.Key, 0o600); err != nil {
		return err
	}
	return f.replace(cert, pair.Cert, 0o644)
}

// replace writes a file completely or not at all.
func (f *Folder) replace(name string, data []byte, mode fs.FileMode) error {
	temporary, err := os.CreateTemp(f.dir, "."+name+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // it does not exist after a success
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Sync(), temporary.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path(name), err)
	}
	return os.Rename(temporary.Name(), f.path(name))
}

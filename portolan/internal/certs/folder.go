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

	"portolan.dev/services/kit/atomicfile"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
)

const (
	caCert = "ca.crt"
	caKey  = "ca.key"
	// The files of the issuer. Registries have its key. ca.crt has its certificate too.
	issuerCert = "issuer.crt"
	issuerKey  = "issuer.key"
	// The authority for the routes between NATS servers.
	routesCACert = "routes-ca.crt"
	routesCAKey  = "routes-ca.key"

	day = 24 * time.Hour
)

// DefaultAuthorityLifetime is the default lifetime of the authorities.
const DefaultAuthorityLifetime = 3650 * day

const (
	// shortLifetime is the default lifetime of certificates that are renewed by a registry, and of
	// people.
	shortLifetime = day
	// longLifetime is the default lifetime of the certificates of NATS and Postgres servers, which
	// somebody has to renew and to tell the servers of. In a folder without an issuer all certificates
	// have it.
	longLifetime = 90 * day
)

// Certificate is a certificate of a folder.
type Certificate struct {
	Name    string    `json:"name"` // role, or role/name; "ca", "issuer" and "routes-ca" are the authorities
	ID      string    `json:"id"`   // URI SAN
	Hosts   []string  `json:"hosts,omitempty"`
	Expires time.Time `json:"expires"`
	Cert    string    `json:"cert"` // paths of the files
	Key     string    `json:"key"`
	Written bool      `json:"written"` // by this command
}

// Folder is a folder with three authorities: one for the routes between NATS servers, the issuer of
// renewals, and one for all other certificates. A server that has a route to a NATS server publishes
// and reads everything, so no certificate of a daemon, a node or a person may open one. The issuer's
// key is on machines that serve, so it is limited to some roles.
type Folder struct {
	dir       string
	authority *authority.Authority
	routes    *authority.Authority
}

// Request is a request for a certificate.
type Request struct {
	Role     string // role, or role/name
	Hosts    []string
	Lifetime time.Duration // 0: that of the role
}

// Init makes an authority and certificates in a folder without an authority. If force is true, it
// replaces an existing authority.
func Init(dir, trustDomain string, lifetime time.Duration, requests []Request, force bool) ([]Certificate, error) {
	f := &Folder{dir: dir}
	for _, made := range []**authority.Authority{&f.authority, &f.routes} {
		var err error
		if *made, err = authority.New(trustDomain, lifetime); err != nil {
			return nil, err
		}
	}
	issuer, err := authority.NewIssuer(trustDomain, lifetime)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{caCert, caKey, issuerCert, issuerKey, routesCACert, routesCAKey} {
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
	if err := errors.Join(f.write(caCert, caKey, f.authority.Pair()), f.writeIssuer(issuer), f.write(routesCACert, routesCAKey, f.routes.Pair())); err != nil {
		return nil, err
	}
	made := []Certificate{
		f.describeAuthority("ca", f.authority, caCert, caKey), f.describeAuthority("issuer", issuer, issuerCert, issuerKey),
		f.describeAuthority("routes-ca", f.routes, routesCACert, routesCAKey),
	}
	issued, err := f.issue(requests)
	return append(made, issued...), err
}

// MakeIssuer makes the issuer of a folder that has none, and adds its certificate to the trusted
// ones in ca.crt. An issuer that is there stays.
func (f *Folder) MakeIssuer() (Certificate, error) {
	if f.hasIssuer() {
		issuer, err := f.load(issuerCert, issuerKey)
		if err != nil {
			return Certificate{}, err
		}
		there := f.describeAuthority("issuer", issuer, issuerCert, issuerKey)
		there.Written = false
		return there, nil
	}
	issuer, err := authority.NewIssuer(f.TrustDomain(), time.Until(f.authority.Expires()))
	if err != nil {
		return Certificate{}, err
	}
	return f.describeAuthority("issuer", issuer, issuerCert, issuerKey), f.writeIssuer(issuer)
}

// writeIssuer writes the files of an issuer, its certificate also after those in ca.crt.
func (f *Folder) writeIssuer(issuer *authority.Authority) error {
	trusted, err := os.ReadFile(f.path(caCert))
	if err != nil {
		return err
	}
	cert := issuer.Pair().Cert
	if err := f.replace(caCert, slices.Concat(trusted, cert), 0o644); err != nil {
		return err
	}
	return f.write(issuerCert, issuerKey, issuer.Pair())
}

func (f *Folder) hasIssuer() bool { return exists(f.path(issuerCert)) }

// lifetimeOf returns the default lifetime of the certificates of a role.
func (f *Folder) lifetimeOf(role identity.Role) time.Duration {
	short := identity.Renews(role) || role == identity.Operator || role == identity.Viewer
	if short && f.hasIssuer() {
		return shortLifetime
	}
	return longLifetime
}

// describeAuthority describes an authority that was just made.
func (f *Folder) describeAuthority(name string, a *authority.Authority, cert, key string) Certificate {
	return Certificate{Name: name, ID: "spiffe://" + a.TrustDomain(), Expires: a.Expires(), Cert: f.path(cert), Key: f.path(key), Written: true}
}

// Open opens a folder that has an authority.
func Open(dir string) (*Folder, error) {
	f := &Folder{dir: dir}
	var err error
	if f.authority, err = f.load(caCert, caKey); err != nil {
		return nil, err
	}
	if !exists(f.path(routesCACert)) && !exists(f.path(routesCAKey)) {
		return f, nil // an earlier release made the folder
	}
	f.routes, err = f.load(routesCACert, routesCAKey)
	return f, err
}

// OpenCopies opens a folder that has certificates but no authority, as machines have it.
func OpenCopies(dir string) *Folder { return &Folder{dir: dir} }

// HasAuthority reports whether a folder has the key of its authority.
func HasAuthority(dir string) bool { return exists(filepath.Join(dir, caKey)) }

// load reads the files of an authority.
func (f *Folder) load(cert, key string) (*authority.Authority, error) {
	var pair authority.Pair
	for _, one := range []struct {
		name string
		into *[]byte
	}{{cert, &pair.Cert}, {key, &pair.Key}} {
		data, err := os.ReadFile(f.path(one.name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s has no %s: portolan certs init makes an authority; --certs names another folder", f.dir, one.name)
		}
		if err != nil {
			return nil, err
		}
		*one.into = data
	}
	loaded, err := authority.Load(pair)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path(cert), err)
	}
	return loaded, nil
}

// issuer returns the authority that issues the certificates of a role. It makes the authority for
// routes if the folder has none, as a folder of an earlier release.
func (f *Folder) issuer(role identity.Role) (*authority.Authority, error) {
	if role != identity.NATSRoute {
		return f.authority, nil
	}
	if f.routes == nil {
		made, err := authority.New(f.TrustDomain(), time.Until(f.authority.Expires()))
		if err != nil {
			return nil, err
		}
		if err := f.write(routesCACert, routesCAKey, made.Pair()); err != nil {
			return nil, err
		}
		f.routes = made
	}
	return f.routes, nil
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
		if err := f.awaitRevocation(id); err != nil {
			return issued, err
		}
		issuer, err := f.issuer(id.Role)
		if err != nil {
			return issued, err
		}
		pair, err := issuer.Issue(authority.Request{ID: id, Hosts: r.Hosts, Lifetime: cmp.Or(r.Lifetime, f.lifetimeOf(id.Role))})
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

// Renew replaces certificates that expire within the given time or, if it is 0, that have a third of
// their life left. The new ones have the same lifetime and new keys. If names are given, it renews only these. If force is true, it also renews
// certificates that do not expire soon. It returns all certificates that it examined.
func (f *Folder) Renew(names []string, within time.Duration, force bool) ([]Certificate, error) {
	return f.renew(names, within, force, f.reissue)
}

// RenewBy is Renew for a folder without the authority's key. The given function gets the new
// certificate and key from a registry. Without names, certificates that registries do not renew
// stay.
func (f *Folder) RenewBy(names []string, within time.Duration, force bool, get func(identity.Files) (authority.Pair, error)) ([]Certificate, error) {
	return f.renew(names, within, force, func(one Certificate, old *x509.Certificate) (Certificate, error) {
		id, err := identity.FromCertificate(old)
		if err != nil {
			return one, err
		}
		if !identity.Renews(id.Role) {
			if len(names) == 0 {
				return one, nil
			}
			return one, fmt.Errorf("a registry renews no certificates of the role %s: renew it in the folder that has ca.key", id.Role)
		}
		pair, err := get(identity.Files{Cert: one.Cert, Key: one.Key, CA: f.path(caCert)})
		if err != nil {
			return one, err
		}
		cert, key := files(id)
		if err := f.write(cert, key, pair); err != nil {
			return one, err
		}
		parsed, err := authority.ParseCert(pair.Cert)
		if err != nil {
			return one, err
		}
		renewed := f.describe(id, parsed)
		renewed.Written = true
		return renewed, nil
	})
}

// renew calls a function for each certificate that has to be renewed.
func (f *Folder) renew(
	names []string, within time.Duration, force bool, renew func(Certificate, *x509.Certificate) (Certificate, error),
) ([]Certificate, error) {
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
		old, err := ReadCertificate(one.Cert)
		if err != nil {
			return looked, err
		}
		if !force && !isDue(old, within) {
			looked = append(looked, one)
			continue
		}
		renewed, err := renew(one, old)
		if err != nil {
			return looked, fmt.Errorf("%s: %w", one.Name, err)
		}
		looked = append(looked, renewed)
	}
	return looked, nil
}

// reissue makes a certificate anew.
func (f *Folder) reissue(one Certificate, old *x509.Certificate) (Certificate, error) {
	issued, err := f.issue([]Request{{Role: one.Name, Hosts: one.Hosts, Lifetime: lifetimeOf(old)}})
	if err != nil {
		return one, err
	}
	return issued[0], nil
}

// isDue reports whether a certificate expires within the given time or, if it is 0, has a third of
// its life left.
func isDue(cert *x509.Certificate, within time.Duration) bool {
	if within == 0 {
		return identity.Due(cert, time.Now())
	}
	return time.Until(cert.NotAfter) <= within
}

// lifetimeOf returns the lifetime with which a certificate was issued: its validity, which begins
// some minutes earlier because of clocks that are behind.
func lifetimeOf(cert *x509.Certificate) time.Duration {
	validity := cert.NotAfter.Sub(cert.NotBefore)
	return max(validity.Round(time.Hour), time.Hour)
}

// List returns the certificates of the folder, except for those of the authorities.
func (f *Folder) List() ([]Certificate, error) {
	paths, err := filepath.Glob(f.path("*.crt"))
	if err != nil {
		return nil, err
	}
	var list []Certificate
	for _, path := range paths {
		if slices.Contains([]string{caCert, issuerCert, routesCACert}, filepath.Base(path)) {
			continue
		}
		cert, err := ReadCertificate(path)
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

// ReadCertificate reads the first certificate in a file.
func ReadCertificate(path string) (*x509.Certificate, error) {
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

// BoundFilesOf returns the files of the only certificate of a role in a folder that is bound to a
// node or a namespace. found is false if there is none. Several are an error.
func BoundFilesOf(dir string, role identity.Role) (files identity.Files, found bool, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, string(role)+"?*.crt"))
	if err != nil || len(paths) == 0 {
		return identity.Files{}, false, err
	}
	if len(paths) > 1 {
		return identity.Files{}, false, fmt.Errorf("%s has %d certificates of the role %s: --tls-cert, --tls-key and --tls-ca choose one", dir, len(paths), role)
	}
	key := strings.TrimSuffix(paths[0], ".crt") + ".key"
	return identity.Files{Cert: paths[0], Key: key, CA: filepath.Join(dir, caCert)}, true, nil
}

// CopyStore stores a renewed certificate in the files from which it was read.
type CopyStore identity.Files

var _ identity.Store = CopyStore{}

// Load implements identity.Store. There is no other certificate than that in the files.
func (CopyStore) Load(identity.ID) ([]byte, error) { return nil, nil }

// Save implements identity.Store.
func (s CopyStore) Save(_ identity.ID, cert, key []byte) error {
	if filepath.Dir(s.Cert) != filepath.Dir(s.Key) {
		return fmt.Errorf("%s and %s are in two folders", s.Cert, s.Key)
	}
	f := &Folder{dir: filepath.Dir(s.Cert)}
	return f.write(filepath.Base(s.Cert), filepath.Base(s.Key), authority.Pair{Cert: cert, Key: key})
}

// TrustDomain returns the trust domain of the authority.
func (f *Folder) TrustDomain() string { return f.authority.TrustDomain() }

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name) }

// files returns the names of a certificate's files.
func files(id identity.ID) (cert, key string) {
	return id.FileName() + ".crt", id.FileName() + ".key"
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
	return atomicfile.WriteFile(f.path(name), data, mode)
}

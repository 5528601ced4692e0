package certs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"gopkg.in/yaml.v3"

	"portolan.dev/services/kit/identity"
)

// Provision is a list of an installation's certificates and their folders, for the set-up of
// machines and containers.
type Provision struct {
	// TrustDomain is the trust domain of a new authority. Default: "portolan".
	TrustDomain string `yaml:"trustDomain"`
	// Days is the lifetime of certificates in days. Default: one day for the roles that renew
	// themselves and for people, and 90 for servers of NATS and Postgres.
	Days int `yaml:"days"`
	// RenewWithinDays is the number of days before its end at which a certificate is renewed.
	// Default: a third of its life.
	RenewWithinDays int `yaml:"renewWithinDays"`
	// Certificates are all certificates of the installation.
	Certificates []Placement `yaml:"certificates"`
	// Issuer is the folder that gets the issuer of renewals, which registries need, with its key.
	Issuer struct {
		Folder string `yaml:"folder"` // empty: none
		// Owner is the number of the user that owns the files, as of certificates.
		Owner *int `yaml:"owner"`
	} `yaml:"issuer"`
	// NATS describes the part of nats-server's configuration that lets the certificates in. It is
	// not written if File is empty.
	NATS struct {
		File string `yaml:"file"` // file to write
		// Path is the folder of the server's certificate. Default: the folder of File.
		Path string `yaml:"path"`
		// Cluster is the cluster of the servers. Default: none.
		Cluster NATSCluster `yaml:"cluster"`
	} `yaml:"nats"`
}

// Placement is a certificate with the folder that gets it, its key and the authority's certificate.
type Placement struct {
	Role   string   `yaml:"who"` // role, or role/name
	Hosts  []string `yaml:"hosts"`
	Folder string   `yaml:"folder"`
	// Days is the lifetime in days. Default: the lifetime of the list.
	Days int `yaml:"days"`
	// Owner is the number of the user that owns the files. Default: the user that runs the command.
	Owner *int `yaml:"owner"`
}

// ReadProvision reads a list. It refuses unknown fields.
func ReadProvision(r io.Reader) (*Provision, error) {
	decoder := yaml.NewDecoder(r)
	decoder.KnownFields(true)
	p := &Provision{}
	if err := decoder.Decode(p); err != nil {
		return nil, err
	}
	var errs []error
	for i, c := range p.Certificates {
		if c.Role == "" || c.Folder == "" {
			errs = append(errs, fmt.Errorf("certificates[%d]: who and folder are required", i))
		}
		if c.Days < 0 {
			errs = append(errs, fmt.Errorf("certificates[%d].days: %d is no lifetime", i, c.Days))
		}
		if c.Owner != nil && *c.Owner < 0 {
			errs = append(errs, fmt.Errorf("certificates[%d].owner: %d is no user", i, *c.Owner))
		}
	}
	if p.Days < 0 || p.RenewWithinDays < 0 || len(p.Certificates) == 0 {
		errs = append(errs, errors.New("days and renewWithinDays may not be negative, and certificates may not be empty"))
	}
	return p, errors.Join(errs...)
}

// Provision updates the folders of an authority and of a list. It makes missing certificates,
// including the authority, and renews certificates that expire soon. It may be run at any time by a
// user that may write to the folders.
func (p *Provision) Provision(dir string) ([]Certificate, error) {
	folder, made, err := p.open(dir)
	if err != nil {
		return nil, err
	}
	if p.Issuer.Folder != "" {
		issuer, err := folder.MakeIssuer()
		if err != nil {
			return made, err
		}
		if issuer.Written {
			made = append(made, issuer)
		}
		if err := folder.copyFiles(p.Issuer.Folder, p.Issuer.Owner, issuerKey, issuerCert); err != nil {
			return made, err
		}
	}
	var missing []Request
	var names []string
	for i, c := range p.Certificates {
		id, err := identity.ParsePath(folder.TrustDomain(), c.Role)
		if err != nil {
			return made, fmt.Errorf("certificates[%d].who: %w", i, err)
		}
		names = append(names, c.Role)
		if cert, _ := files(id); !exists(folder.path(cert)) {
			missing = append(missing, p.request(c))
		}
	}
	if _, err := folder.Issue(missing, false); err != nil {
		return made, err
	}
	all, err := folder.Renew(names, time.Duration(p.RenewWithinDays)*day, false)
	if err != nil {
		return made, err
	}
	for i := range all {
		for _, c := range missing {
			all[i].Written = all[i].Written || c.Role == all[i].Name
		}
	}
	for _, c := range p.Certificates {
		if err := folder.copyTo(c); err != nil {
			return append(made, all...), err
		}
	}
	return append(made, all...), p.configureNATS(folder)
}

// open opens the authority's folder. It makes the folder and the authority if they do not exist.
func (p *Provision) open(dir string) (*Folder, []Certificate, error) {
	var made []Certificate
	if !exists(filepath.Join(dir, caCert)) && !exists(filepath.Join(dir, caKey)) {
		var err error
		made, err = Init(dir, cmp.Or(p.TrustDomain, identity.DefaultTrustDomain), DefaultAuthorityLifetime, nil, false)
		if err != nil {
			return nil, nil, err
		}
	}
	folder, err := Open(dir)
	return folder, made, err
}

func (p *Provision) request(c Placement) Request {
	return Request{Role: c.Role, Hosts: c.Hosts, Lifetime: time.Duration(cmp.Or(c.Days, p.Days)) * day}
}

// copyTo copies a certificate into its folder, the key before the certificate. It copies only files
// that differ.
func (f *Folder) copyTo(c Placement) error {
	id, err := identity.ParsePath(f.TrustDomain(), c.Role)
	if err != nil {
		return err
	}
	cert, key := files(id)
	ca := caCert
	if id.Role == identity.NATSRoute {
		ca = routesCACert
	}
	if err := f.copyFiles(c.Folder, c.Owner, ca, key, cert); err != nil {
		return fmt.Errorf("%s: %w", c.Role, err)
	}
	return nil
}

// copyFiles copies files that differ into a folder, and gives them and the folder to the owner, because
// a daemon replaces the files when it renews its certificate.
func (f *Folder) copyFiles(folder string, owner *int, names ...string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { // #nosec G301 -- daemons of other users read the certificates; keys have a mode of their own
		return err
	}
	if owner != nil {
		if err := os.Chown(folder, *owner, -1); err != nil {
			return fmt.Errorf("only root gives folders away: %w", err)
		}
	}
	to := &Folder{dir: folder}
	for _, name := range names {
		data, err := os.ReadFile(f.path(name))
		if err != nil {
			return err
		}
		if there, err := os.ReadFile(to.path(name)); err == nil && bytes.Equal(there, data) {
			continue
		}
		if err := to.replace(name, data, 0o600); err != nil {
			return err
		}
		if owner != nil {
			if err := os.Chown(to.path(name), *owner, -1); err != nil {
				return fmt.Errorf("only root gives files away: %w", err)
			}
		}
	}
	return nil
}

func (p *Provision) configureNATS(folder *Folder) error {
	if p.NATS.File == "" {
		return nil
	}
	dir, name := filepath.Split(p.NATS.File)
	text, err := folder.NATSConfig(NATSOptions{Path: cmp.Or(p.NATS.Path, filepath.Clean(dir)), Cluster: p.NATS.Cluster})
	if err != nil {
		return err
	}
	return (&Folder{dir: dir}).replace(name, []byte(text), 0o644)
}

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
	// Days is the lifetime of certificates in days. Default: 90.
	Days int `yaml:"days"`
	// RenewWithinDays is the number of days before its end at which a certificate is renewed.
	// Default: 30.
	RenewWithinDays int `yaml:"renewWithinDays"`
	// Certificates are all certificates of the installation.
	Certificates []Placement `yaml:"certificates"`
	// NATS describes the part of nats-server's configuration that lets the certificates in. It is
	// not written if File is empty.
	NATS struct {
		File string `yaml:"file"` // file to write
		// Path is the folder of the server's certificate. Default: the folder of File.
		Path string `yaml:"path"`
	} `yaml:"nats"`
}

// Placement is a certificate with the folder that gets it, its key and the authority's certificate.
type Placement struct {
	Role   string   `yaml:"who"` // role, or role/name
	Hosts  []string `yaml:"hosts"`
	Folder string   `yaml:"folder"`
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
	all, err := folder.Renew(names, time.Duration(cmp.Or(p.RenewWithinDays, 30))*day, false)
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
	lifetime := DefaultLifetime
	if p.Days > 0 {
		lifetime = time.Duration(p.Days) * day
	}
	return Request{Role: c.Role, Hosts: c.Hosts, Lifetime: lifetime}
}

// copyTo copies a certificate into its folder, the key before the certificate. It copies only files
// that differ.
func (f *Folder) copyTo(c Placement) error {
	id, err := identity.ParsePath(f.TrustDomain(), c.Role)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return err
	}
	to := &Folder{dir: c.Folder}
	cert, key := files(id)
	for _, name := range []string{caCert, key, cert} {
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
		if c.Owner != nil {
			if err := os.Chown(to.path(name), *c.Owner, -1); err != nil {
				return fmt.Errorf("%s: only root gives files away: %w", c.Role, err)
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
	text, err := folder.NATSConfig(NATSOptions{Path: cmp.Or(p.NATS.Path, filepath.Clean(dir))})
	if err != nil {
		return err
	}
	return (&Folder{dir: dir}).replace(name, []byte(text), 0o644)
}

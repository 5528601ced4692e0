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

// Provision is a list of the certificates of an installation and of where they
// belong, for those who set machines and containers up.
type Provision struct {
	// TrustDomain of a new authority; default: "portolan".
	TrustDomain string `yaml:"trustDomain"`
	// Days that certificates are good for; default: 90.
	Days int `yaml:"days"`
	// RenewWithinDays is how soon before its end a certificate is made anew; default: 30.
	RenewWithinDays int `yaml:"renewWithinDays"`
	// Certificates are all that there should be.
	Certificates []Placed `yaml:"certificates"`
	// NATS is the part of nats-server's configuration that lets them in; none where File is empty.
	NATS struct {
		File string `yaml:"file"` // is written
		Path string `yaml:"path"` // folder in which the server has its certificate; default: that of File
	} `yaml:"nats"`
}

// Placed is a certificate and the folder that gets it, with its key and the
// authority's certificate.
type Placed struct {
	Who    string   `yaml:"who"` // role, or role/name
	Hosts  []string `yaml:"hosts"`
	Folder string   `yaml:"folder"`
	// Owner is the user, by number, that the files belong to; default: who runs the command.
	Owner *int `yaml:"owner"`
}

// ReadProvision reads a list; it refuses what it does not know.
func ReadProvision(r io.Reader) (*Provision, error) {
	decoder := yaml.NewDecoder(r)
	decoder.KnownFields(true)
	p := &Provision{}
	if err := decoder.Decode(p); err != nil {
		return nil, err
	}
	var errs []error
	for i, c := range p.Certificates {
		if c.Who == "" || c.Folder == "" {
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

// Provision brings an authority's folder and the folders of a list up to date:
// it makes what is missing, the authority itself included, makes anew what
// expires soon, and leaves the rest. It may be run at any time, by whoever may
// write those folders.
func (p *Provision) Provision(dir string) ([]Certificate, error) {
	folder, made, err := p.open(dir)
	if err != nil {
		return nil, err
	}
	var missing []Request
	var names []string
	for i, c := range p.Certificates {
		id, err := identity.ParsePath(folder.TrustDomain(), c.Who)
		if err != nil {
			return made, fmt.Errorf("certificates[%d].who: %w", i, err)
		}
		names = append(names, c.Who)
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
			all[i].Written = all[i].Written || c.Who == all[i].Name
		}
	}
	for _, c := range p.Certificates {
		if err := folder.place(c); err != nil {
			return append(made, all...), err
		}
	}
	return append(made, all...), p.configureNATS(folder)
}

// open opens the folder of the authority, or makes both.
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

func (p *Provision) request(c Placed) Request {
	lifetime := DefaultLifetime
	if p.Days > 0 {
		lifetime = time.Duration(p.Days) * day
	}
	return Request{Who: c.Who, Hosts: c.Hosts, Lifetime: lifetime}
}

// place copies a certificate to where it belongs, the key before the certificate
// and each only where it differs.
func (f *Folder) place(c Placed) error {
	id, err := identity.ParsePath(f.TrustDomain(), c.Who)
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
				return fmt.Errorf("%s: only root gives files away: %w", c.Who, err)
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

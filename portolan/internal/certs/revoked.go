package certs

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"portolan.dev/services/kit/identity"
)

// revokedFile records which certificates were revoked. Daemons get them from the registry; NATS
// gets its users from the folder.
const revokedFile = "revoked.json"

// Revoked is a record of revoked certificates: all certificates of an identity that were issued before
// Time, or the certificate with a serial number.
type Revoked struct {
	Identity string    `json:"identity,omitempty"` // path of the identity
	Serial   string    `json:"serial,omitempty"`   // with Identity: of one of its certificates
	Time     time.Time `json:"time"`
	Reason   string    `json:"reason,omitempty"`
}

// denies reports whether a record is about a certificate of the identity that it has.
func (r Revoked) denies(cert *x509.Certificate) bool {
	if r.Serial != "" {
		return r.Serial == identity.SerialOf(cert)
	}
	return identity.IssuedAt(cert).Unix() <= r.Time.Unix()
}

// Listed is a certificate of a folder with its state.
type Listed struct {
	Certificate
	Serial  string `json:"serial"`
	Revoked bool   `json:"revoked"`
	Reason  string `json:"reason,omitempty"` // for which it was revoked
}

// RecordRevoked adds a record to the folder.
func (f *Folder) RecordRevoked(r Revoked) error {
	all, err := f.revoked()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(append(all, r), "", "  ")
	if err != nil {
		return err
	}
	return f.replace(revokedFile, append(data, '\n'), 0o644)
}

// revoked returns all records, in the order in which they were made.
func (f *Folder) revoked() ([]Revoked, error) {
	data, err := os.ReadFile(f.path(revokedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Revoked
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path(revokedFile), err)
	}
	return all, nil
}

// revocationOf returns the record that denies a certificate of an identity.
func revocationOf(all []Revoked, path string, cert *x509.Certificate) (Revoked, bool) {
	for _, r := range all {
		if cmp.Or(r.Identity, path) == path && r.denies(cert) {
			return r, true
		}
	}
	return Revoked{}, false
}

// ListWithState returns the certificates of the folder with their state.
func (f *Folder) ListWithState() ([]Listed, error) {
	list, err := f.List()
	if err != nil {
		return nil, err
	}
	all, err := f.revoked()
	if err != nil {
		return nil, err
	}
	states := make([]Listed, len(list))
	for i, one := range list {
		cert, err := ReadCertificate(one.Cert)
		if err != nil {
			return nil, err
		}
		record, denied := revocationOf(all, one.Name, cert)
		states[i] = Listed{Certificate: one, Serial: identity.SerialOf(cert), Revoked: denied, Reason: record.Reason}
	}
	return states, nil
}

// withoutRevoked removes identities with revoked certificates, unless the folder has a certificate of the
// identity that is not revoked.
func (f *Folder) withoutRevoked(ids []identity.ID) ([]identity.ID, error) {
	all, err := f.revoked()
	if err != nil || len(all) == 0 {
		return ids, err
	}
	var failed error
	kept := slices.DeleteFunc(ids, func(id identity.ID) bool {
		if !slices.ContainsFunc(all, func(r Revoked) bool { return r.Identity == id.Path() }) {
			return false
		}
		file, _ := files(id)
		if !exists(f.path(file)) {
			return true
		}
		cert, err := ReadCertificate(f.path(file))
		if err != nil {
			failed = err
			return true
		}
		_, denied := revocationOf(all, id.Path(), cert)
		return denied
	})
	return kept, failed
}

// awaitRevocation waits until a certificate of an identity that is issued now counts as issued
// after the identity was revoked, because issue and revocation are compared in whole seconds.
func (f *Folder) awaitRevocation(id identity.ID) error {
	all, err := f.revoked()
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Identity != id.Path() || r.Serial != "" {
			continue
		}
		wait := time.Until(r.Time.Truncate(time.Second).Add(time.Second))
		if wait > maxClockDifference {
			return fmt.Errorf("%s was revoked at %s, which is in the future here: set the clocks of this machine and of the registry right", id.Path(), r.Time.UTC().Format(time.RFC3339))
		}
		time.Sleep(wait)
	}
	return nil
}

// maxClockDifference is the longest time for which a new certificate waits for its identity's
// revocation to pass.
const maxClockDifference = 10 * time.Second

package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"portolan.dev/services/kit/atomicfile"
)

// Store keeps the renewed certificate of a process, so that the process has it after a restart.
type Store interface {
	// Load returns the renewed certificate of an identity, followed by its key, in PEM. It returns
	// nothing if there is none.
	Load(id ID) ([]byte, error)
	// Save replaces the renewed certificate of an identity.
	Save(id ID, cert, key []byte) error
}

// Folder is a Store of one file for each identity, in a folder that only its owner may read. A
// certificate and its key are in one file, so that they are replaced at the same moment.
type Folder string

var _ Store = Folder("")

// Load implements Store.
func (f Folder) Load(id ID) ([]byte, error) {
	data, err := os.ReadFile(f.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Save implements Store. It makes the folder if it does not exist.
func (f Folder) Save(id ID, cert, key []byte) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	return atomicfile.WriteFile(f.file(id), slices.Concat(cert, key), 0o600)
}

func (f Folder) file(id ID) string { return filepath.Join(string(f), id.FileName()+".pem") }

// load adds to the contents of the files the renewed certificate of the store. It only logs that the
// store cannot be read, because the configured certificate may be enough.
func (s *Source) load(id ID, c contents) contents {
	if s.opts.Store == nil {
		return c
	}
	data, err := s.opts.Store.Load(id)
	if err != nil {
		s.opts.Log.Warn("renewed certificate not read", "err", err)
	}
	if len(data) > 0 {
		s.renewed.Store(&data)
		c.renewed = data
	}
	return c
}

// newer returns the configured or the renewed certificate. If both are valid, it returns the later one,
// so that an operator can replace a renewed certificate by new files, and the renewed one if both were
// issued in the same second. m and configuredErr are the result of parsing the configured certificate. A
// renewed certificate that cannot be used is not an error, because an operator who changes the identity
// or the authority configures new files.
func (s *Source) newer(m *keyMaterial, configuredErr error, c contents, now time.Time) (*keyMaterial, error) {
	renewed, err := s.parseRenewed(c, now)
	if err == nil && renewed.id != m.id {
		err = fmt.Errorf("is %s, and the configured one is %s", renewed.id, m.id)
	}
	if err != nil {
		if s.current.Load() == nil {
			s.opts.Log.Warn("renewed certificate not used", "err", err)
		}
		if configuredErr != nil {
			configuredErr = fmt.Errorf("%w; the renewed certificate %w", configuredErr, err)
		}
		m.sum = c.sum()
		return m, configuredErr
	}
	if configuredErr == nil && m.leaf.NotBefore.After(renewed.leaf.NotBefore) {
		m.sum = c.sum()
		return m, nil
	}
	return renewed, nil
}

// parseRenewed parses and verifies the renewed certificate in contents.
func (s *Source) parseRenewed(c contents, now time.Time) (*keyMaterial, error) {
	files := s.opts.Files
	files.Cert, files.Key = "(renewed)", "(renewed)"
	m, err := files.parse(contents{cert: c.renewed, key: c.renewed, ca: c.ca}, s.opts.Role, now)
	if err != nil {
		return nil, err
	}
	m.sum, m.renewed = c.sum(), true
	return m, nil
}

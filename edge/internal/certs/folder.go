package certs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// folder reads pairs of files. It is not safe for concurrent use.
type folder struct {
	dir   string
	log   *slog.Logger
	files map[string]*file // by name
	fault string           // the reason why the folder cannot be read; empty: it can be read
}

// file is the result of the last check of a pair of files.
type file struct {
	used *certificate
	sum  [sha256.Size]byte // of the contents of the last check
	// pending is set if these contents cannot be used and were found once. A certificate and its key
	// cannot be replaced at the same moment, so only the second check refuses them.
	pending bool
}

// read returns the certificates by name, and whether any has changed since the last call. If the folder
// cannot be read, nothing has changed.
func (f *folder) read() (map[string]*certificate, bool) {
	entries, err := os.ReadDir(f.dir)
	if f.report(err); err != nil {
		return nil, false
	}
	now, changed := make(map[string]*file, len(f.files)), f.files == nil
	all := make(map[string]*certificate, len(f.files))
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".crt")
		if !ok || name == "" {
			continue
		}
		next := f.check(name, f.files[name])
		changed = changed || f.files[name] == nil || f.files[name].used != next.used
		now[name], all[name] = next, next.used
	}
	changed = changed || len(now) != len(f.files)
	f.files = now
	return all, changed
}

// report logs once that the folder cannot be read, and that it can again.
func (f *folder) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == f.fault:
	case err != nil:
		f.log.Warn("folder of certificates cannot be read, the certificates stay", "err", err)
	default:
		f.log.Info("folder of certificates can be read again", "dir", f.dir)
	}
	f.fault = text
}

// check reads a pair of files. old is the result of the last check, or nil.
func (f *folder) check(name string, old *file) *file {
	cert, certErr := os.ReadFile(filepath.Join(f.dir, name+".crt"))
	key, keyErr := os.ReadFile(filepath.Join(f.dir, name+".key"))
	next := &file{sum: sha256.Sum256(fmt.Append(nil, len(cert), " ", cert, key, certErr, keyErr))}
	if old != nil && old.sum == next.sum && !old.pending {
		return old
	}
	parsed, err := parseFiles(cert, key, certErr, keyErr)
	if err == nil && parsed.pair == nil && old != nil && old.used.pair != nil {
		err = errKeyless
	}
	switch {
	case err == nil:
		next.used = parsed
		f.log.Info("certificate taken", "name", name)
	case old == nil:
		next.used, next.pending = &certificate{err: err}, true
	case !old.pending || old.sum != next.sum:
		next.used, next.pending = old.used, true
	default:
		next.used = old.used.refusing(err)
		f.log.Warn("certificate not taken, an older one stays if there is one", "name", name, "err", err)
	}
	return next
}

// parseFiles parses the contents of a pair of files. If there is no key, they are certificates of authorities.
func parseFiles(cert, key []byte, certErr, keyErr error) (*certificate, error) {
	if errors.Is(keyErr, fs.ErrNotExist) && certErr == nil {
		if pool := poolOf(cert); pool != nil {
			return &certificate{roots: pool, err: errKeyless}, nil
		}
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	c := parse(cert, key)
	c.roots = poolOf(cert)
	return c, c.err
}

// errKeyless is the error of a certificate without a key, which can be used to verify backends.
var errKeyless = errors.New("has no key, so that it can verify backends only")

// refusing returns a copy of a certificate with the reason why its newer files are not used.
func (c *certificate) refusing(err error) *certificate {
	next := *c
	if next.err = err; c.pair != nil {
		next.err = fmt.Errorf("new files are not taken: %w", err)
	}
	return &next
}

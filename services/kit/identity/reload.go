package identity

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// reloader reads the files of a certificate again while the process runs. The fields above current
// are set before Run.
type reloader struct {
	read    func() (contents, error)
	parse   func(contents) (*keyMaterial, error)
	log     *slog.Logger
	every   time.Duration        // time between two checks of the files; 0 means 5 s
	count   func(outcome string) // counts changed files as taken or refused
	checked func()               // called after each check

	current atomic.Pointer[keyMaterial]

	reloading sync.Mutex // guards the fields below
	// seen is the checksum of the contents that were unusable at the last check.
	seen [sha256.Size]byte
	// refused reports whether these contents have been refused, which is logged once.
	refused bool
}

// open reads the files for the first time.
func (r *reloader) open() error {
	if r.every == 0 {
		r.every = 5 * time.Second
	}
	r.count, r.checked = func(string) {}, func() {}
	found, err := r.read()
	if err != nil {
		return err
	}
	m, err := r.parse(found)
	if err != nil {
		return err
	}
	r.current.Store(m)
	return nil
}

// Expires returns the time until which the certificate is valid.
func (r *reloader) Expires() time.Time { return r.current.Load().leaf.NotAfter }

// Certificate returns the certificate in use. The caller must not change it.
func (r *reloader) Certificate() *x509.Certificate { return r.current.Load().leaf }

// Run checks the files periodically until ctx is done. New connections use the new certificate;
// existing ones are kept. Unusable files are logged once and change nothing.
func (r *reloader) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.every)
	defer ticker.Stop()
	for {
		r.reload()
		r.checked()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// reload uses new contents of the files. It refuses unusable contents only at the second check in a
// row, because a certificate and its key cannot be replaced at the same moment.
func (r *reloader) reload() {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	found, err := r.read()
	sum, old := found.sum(), r.current.Load()
	if err == nil && sum == old.sum {
		r.seen, r.refused = sum, false
		return
	}
	var m *keyMaterial
	if err == nil {
		m, err = r.parse(found)
	}
	if err != nil {
		r.refuse(sum, old, err)
		return
	}
	r.seen, r.refused = sum, false
	r.current.Store(m)
	r.count("taken")
	r.log.Info("new certificate taken", "id", m.name(), "expires", m.leaf.NotAfter, "renewed", m.renewed)
}

// refuse counts and logs unusable files once.
func (r *reloader) refuse(sum [sha256.Size]byte, old *keyMaterial, err error) {
	if sum != r.seen {
		r.seen, r.refused = sum, false
		return
	}
	if r.refused {
		return
	}
	r.refused = true
	r.count("refused")
	r.log.Warn("new certificate not taken, the old one stays", "err", err, "expires", old.leaf.NotAfter)
}

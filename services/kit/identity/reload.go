package identity

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync/atomic"
	"time"
)

// reloader reads the files of a certificate again while the process runs. The fields above current
// are set before Run.
type reloader struct {
	read   func() (contents, error)
	parse  func(contents) (*material, error)
	log    *slog.Logger
	every  time.Duration        // between two looks at the files; 0: 5 s
	count  func(outcome string) // counts files as taken or refused
	looked func()               // is called after each look

	current atomic.Pointer[material]
	seen    [sha256.Size]byte // contents that could not be used when last looked at; Run's own
	refused bool              // that was told; Run's own
}

// open reads the files for the first time.
func (r *reloader) open() error {
	if r.every == 0 {
		r.every = 5 * time.Second
	}
	r.count, r.looked = func(string) {}, func() {}
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

// Expires returns the end of the certificate's time.
func (r *reloader) Expires() time.Time { return r.current.Load().leaf.NotAfter }

// Run looks at the files every now and then, until ctx is done. New connections
// use what it finds; those there are go on. Files that cannot be used are told of
// once, and change nothing.
func (r *reloader) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.every)
	defer ticker.Stop()
	for {
		r.reload()
		r.looked()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// reload takes what is new in the files. What cannot be used counts when it is
// seen twice: a certificate and its key cannot be replaced at one moment.
func (r *reloader) reload() {
	found, err := r.read()
	sum, old := found.sum(), r.current.Load()
	if err == nil && sum == old.sum {
		r.seen, r.refused = sum, false
		return
	}
	var m *material
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
	r.log.Info("new certificate taken", "id", m.name(), "expires", m.leaf.NotAfter)
}

// refuse tells once of files that cannot be used.
func (r *reloader) refuse(sum [sha256.Size]byte, old *material, err error) {
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

package identity

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/health"
)

// Options are what a source is made of.
type Options struct {
	Files Files
	// Role is the one that the certificate must be of; empty: any.
	Role Role
	Log  *slog.Logger
	// Metrics and Health may be nil.
	Metrics prometheus.Registerer
	Health  *health.Registry
	// Every is the time between two looks at the files; 0: 5 s.
	Every time.Duration
}

// Source is the certificate that a process has at the moment, and those that it
// believes. It may be used by many at once.
type Source struct {
	opts    Options
	current atomic.Pointer[material]
	seen    [sha256.Size]byte // contents that could not be used when last looked at; Run's own
	refused bool              // that was told; Run's own
	metrics *metrics
	quiet   quiet
}

// Open reads the files. The error says in one line what is wrong with them.
func Open(o Options) (*Source, error) {
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	s := &Source{opts: o}
	found, err := o.Files.read()
	if err != nil {
		return nil, err
	}
	m, err := o.Files.parse(found, o.Role, time.Now())
	if err != nil {
		return nil, err
	}
	s.current.Store(m)
	s.metrics = newMetrics(o.Metrics, s)
	return s, nil
}

// ID returns who the process is.
func (s *Source) ID() ID { return s.current.Load().id }

// Expires returns the end of the certificate's time.
func (s *Source) Expires() time.Time { return s.current.Load().leaf.NotAfter }

// Run looks at the files every now and then, until ctx is done. New connections
// use what it finds; those there are go on. Files that cannot be used are told of
// once, and change nothing.
func (s *Source) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.opts.Every)
	defer ticker.Stop()
	for {
		s.look()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// healthCheck is not ready once our own certificate has expired: nobody talks to us then.
const healthCheck = "certificate"

func (s *Source) look() {
	s.reload()
	if s.opts.Health == nil {
		return
	}
	err := inTime(s.current.Load().leaf, time.Now())
	if err != nil {
		err = fmt.Errorf("tls-cert %s: %w", s.opts.Files.Cert, err)
	}
	s.opts.Health.Set(healthCheck, err)
}

// reload takes what is new in the files. What cannot be used counts when it is
// seen twice: a certificate and its key cannot be replaced at one moment.
func (s *Source) reload() {
	found, err := s.opts.Files.read()
	sum, old := found.sum(), s.current.Load()
	if err == nil && sum == old.sum {
		s.seen, s.refused = sum, false
		return
	}
	var m *material
	if err == nil {
		m, err = s.opts.Files.parse(found, s.opts.Role, time.Now())
	}
	if err == nil && m.id != old.id {
		err = fmt.Errorf("tls-cert %s: is %s, and we are %s until the next start", s.opts.Files.Cert, m.id, old.id)
	}
	if err != nil {
		s.refuse(sum, old, err)
		return
	}
	s.seen, s.refused = sum, false
	s.current.Store(m)
	s.metrics.reloads.WithLabelValues("taken").Inc()
	s.opts.Log.Info("new certificate taken", "id", m.id.String(), "expires", m.leaf.NotAfter)
}

// refuse tells once of files that cannot be used.
func (s *Source) refuse(sum [sha256.Size]byte, old *material, err error) {
	if sum != s.seen {
		s.seen, s.refused = sum, false
		return
	}
	if s.refused {
		return
	}
	s.refused = true
	s.metrics.reloads.WithLabelValues("refused").Inc()
	s.opts.Log.Warn("new certificate not taken, the old one stays", "err", err, "expires", old.leaf.NotAfter)
}

// quiet lets through one of many: whoever knocks at a port must not be able to
// fill the log.
type quiet struct {
	mu   sync.Mutex
	last time.Time
}

const quietFor = time.Second

func (q *quiet) speak() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.last) < quietFor {
		return false
	}
	q.last = time.Now()
	return true
}

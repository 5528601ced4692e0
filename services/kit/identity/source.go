package identity

import (
	"fmt"
	"log/slog"
	"sync"
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
	reloader
	opts    Options
	metrics *metrics
	quiet   quiet
}

// Open reads the files. The error says in one line what is wrong with them.
func Open(o Options) (*Source, error) {
	s := &Source{opts: o}
	s.reloader = reloader{read: o.Files.read, parse: s.parse, log: o.Log, every: o.Every}
	if err := s.open(); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(o.Metrics, s)
	s.count = func(outcome string) { s.metrics.reloads.WithLabelValues(outcome).Inc() }
	s.looked = s.report
	return s, nil
}

// parse parses the files. While the process runs, its identity must not change.
func (s *Source) parse(found contents) (*material, error) {
	m, err := s.opts.Files.parse(found, s.opts.Role, time.Now())
	if old := s.current.Load(); err == nil && old != nil && m.id != old.id {
		err = fmt.Errorf("tls-cert %s: is %s, and we are %s until the next start", s.opts.Files.Cert, m.id, old.id)
	}
	return m, err
}

// ID returns who the process is.
func (s *Source) ID() ID { return s.current.Load().id }

// healthCheck is not ready once our own certificate has expired: nobody talks to us then.
const healthCheck = "certificate"

// report sets the health check of the certificate.
func (s *Source) report() {
	if s.opts.Health == nil {
		return
	}
	err := inTime(s.current.Load().leaf, time.Now())
	if err != nil {
		err = fmt.Errorf("tls-cert %s: %w", s.opts.Files.Cert, err)
	}
	s.opts.Health.Set(healthCheck, err)
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

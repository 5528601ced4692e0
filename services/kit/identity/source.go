package identity

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/health"
)

// Options are the options of a Source.
type Options struct {
	Files Files
	// Role is the required role of the certificate. If it is empty, any role is accepted.
	Role Role
	Log  *slog.Logger
	// Metrics and Health may be nil.
	Metrics prometheus.Registerer
	Health  *health.Registry
	// Every is the time between two checks of the files; 0 means 5 s.
	Every time.Duration
}

// Source holds the current certificate of a process and the authorities that it trusts. It is safe
// for concurrent use.
type Source struct {
	reloader
	opts     Options
	metrics  *metrics
	logLimit logLimiter
}

// Open reads the files. Its error is one line.
func Open(o Options) (*Source, error) {
	s := &Source{opts: o}
	s.reloader = reloader{read: o.Files.read, parse: s.parse, log: o.Log, every: o.Every}
	if err := s.open(); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(o.Metrics, s)
	s.count = func(outcome string) { s.metrics.reloads.WithLabelValues(outcome).Inc() }
	s.checked = s.report
	return s, nil
}

// parse parses the files. It refuses a change of the identity while the process runs.
func (s *Source) parse(found contents) (*keyMaterial, error) {
	m, err := s.opts.Files.parse(found, s.opts.Role, time.Now())
	if old := s.current.Load(); err == nil && old != nil && m.id != old.id {
		err = fmt.Errorf("tls-cert %s: is %s, and we are %s until the next start", s.opts.Files.Cert, m.id, old.id)
	}
	return m, err
}

// ID returns the identity of the process.
func (s *Source) ID() ID { return s.current.Load().id }

// healthCheck is the name of the health check. It fails once the certificate has expired, because
// then other daemons refuse connections.
const healthCheck = "certificate"

// report sets the health check of the certificate.
func (s *Source) report() {
	if s.opts.Health == nil {
		return
	}
	err := checkValidity(s.current.Load().leaf, time.Now())
	if err != nil {
		err = fmt.Errorf("tls-cert %s: %w", s.opts.Files.Cert, err)
	}
	s.opts.Health.Set(healthCheck, err)
}

// logLimiter limits the log to one line per second, so that clients cannot fill it by connecting.
type logLimiter struct {
	mu   sync.Mutex
	last time.Time
}

const logInterval = time.Second

func (q *logLimiter) allow() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.last) < logInterval {
		return false
	}
	q.last = time.Now()
	return true
}

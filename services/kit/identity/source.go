package identity

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
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
	// Store keeps the renewed certificate. If it is nil, a renewed certificate is in memory only.
	Store Store
}

// Source holds the current certificate of a process and the authorities that it trusts. It is safe
// for concurrent use.
type Source struct {
	reloader
	opts     Options
	metrics  *metrics
	denied   *DenyList
	logLimit logLimiter
	// renewed is the renewed certificate, followed by its key, in PEM; nil if there is none.
	renewed atomic.Pointer[[]byte]
	// unsaved reports whether the renewed certificate still has to be stored. Only KeepRenewed
	// uses it.
	unsaved bool
}

// Open reads the files. Its error is one line.
func Open(o Options) (*Source, error) {
	s := &Source{opts: o}
	s.reloader = reloader{read: s.read, parse: s.parse, log: o.Log, every: o.Every}
	if err := s.open(); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(o.Metrics, s)
	s.denied = newDenyList(o.Metrics)
	s.count = func(outcome string) { s.metrics.reloads.WithLabelValues(outcome).Inc() }
	s.checked = s.report
	return s, nil
}

// read reads the files. The renewed certificate is read from its store once, at the start.
func (s *Source) read() (contents, error) {
	c, err := s.opts.Files.read()
	if renewed := s.renewed.Load(); renewed != nil {
		c.renewed = *renewed
	}
	return c, err
}

// parse parses the files, and chooses between the configured and the renewed certificate. It refuses
// a change of the identity while the process runs.
func (s *Source) parse(found contents) (*keyMaterial, error) {
	now := time.Now()
	m, err := s.opts.Files.parse(found, s.opts.Role, now)
	if m != nil && s.current.Load() == nil {
		found = s.load(m.id, found)
	}
	if m != nil && found.renewed != nil {
		m, err = s.newer(m, err, found, now)
	}
	if old := s.current.Load(); err == nil && old != nil && m.id != old.id {
		err = fmt.Errorf("tls-cert %s: is %s, and we are %s until the next start", s.opts.Files.Cert, m.id, old.id)
	}
	return m, err
}

// ID returns the identity of the process.
func (s *Source) ID() ID { return s.current.Load().id }

// HasHost reports whether the certificate names a host, by its DNS name or IP address.
func (s *Source) HasHost(host string) bool { return s.current.Load().leaf.VerifyHostname(host) == nil }

// Refused counts and logs a connection that failed in the TLS handshake. Servers with MutualTLS call
// it; the servers of gRPC do so by themselves.
func (s *Source) Refused(peer string, err error) {
	s.metrics.refusals.Inc()
	if s.logLimit.allow() {
		s.opts.Log.Warn("connection refused", "peer", peer, "err", err)
	}
}

// healthCheck is the name of the health check. It fails once the certificate has expired or was
// revoked, because then other daemons refuse connections.
const healthCheck = "certificate"

// report sets the health check of the certificate.
func (s *Source) report() {
	if s.opts.Health == nil {
		return
	}
	m := s.current.Load()
	err := checkValidity(m.leaf, time.Now())
	if err == nil {
		err = s.denied.current.Load().check(certificateOf(m.leaf, m.id))
	}
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

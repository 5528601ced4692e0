package serve

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/object"

	"portolan.dev/edge/internal/plan"
	"portolan.dev/edge/internal/view"
)

// retryEvery is the time after which ports that could not be opened are tried again.
const retryEvery = time.Second

// Options are the settings of a Server.
type Options struct {
	View   *view.View
	Groups map[string][]netip.Prefix // named range sets
	// Ranges are the ranges in which the edge may listen; empty: everywhere.
	Ranges []netip.Prefix
	Limits Limits

	Certs  Certificates
	Logs   AccessLogs
	Checks Checks
	Agent  Agent
	// Warn writes an Event about a service.
	Warn    func(svc *corev1.Service, reason, message string)
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Limits bound what clients can occupy.
type Limits struct {
	Handshake     time.Duration // for a PROXY header, a TLS handshake, the head of a request
	Connections   int           // of one port
	Handshakes    int           // of one port, unfinished
	MaxHeaderSize int           // of a request, in bytes
}

// Agent is the node's agent.
type Agent interface {
	// Want sets the addresses that are to belong to the machine.
	Want(addrs []netip.Addr)
	// IsLocal reports whether an address belongs to the machine.
	IsLocal(addr netip.Addr) bool
	// Serve sets the addresses that the edge serves.
	Serve(addrs []netip.Addr)
}

// Server serves the ports of all services. Make it with New, then call Run once.
type Server struct {
	opts    Options
	metrics *metrics
	wake    chan struct{}

	mu       sync.Mutex
	zone     string
	services map[object.Name]*service     // guarded by mu
	ports    map[netip.AddrPort]*port     // guarded by mu: the open ones, and those with an error
	draining map[*port]struct{}           // guarded by mu: closed ports with connections
	served   []netip.Addr                 // guarded by mu: as the agent was told
	stopped  bool                         // guarded by mu: no port is opened any more
}

// service is a service as it was planned last.
type service struct {
	view     view.Service
	settings balancer.Settings
	problems []string // of settings and plan
	reported []string // problems that were written as Events
	ports    []plan.Port
}

// New returns a server that serves nothing yet.
func New(o Options) *Server {
	return &Server{
		opts: o, metrics: newMetrics(o.Metrics), wake: make(chan struct{}, 1),
		services: map[object.Name]*service{}, ports: map[netip.AddrPort]*port{}, draining: map[*port]struct{}{},
	}
}

// Changed makes the server look at the view, at local addresses and at checks again.
func (s *Server) Changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run serves until ctx is done, and then closes everything.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			s.sync()
		case <-retry.C:
			s.retry()
		}
	}
}

// sync plans what has changed, and puts it in force.
func (s *Server) sync() {
	batch := s.opts.View.NextBatch()
	if batch.Secrets != nil {
		s.opts.Certs.SetSecrets(batch.Secrets)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone = batch.Zone
	for name, svc := range batch.Services {
		s.plan(name, svc)
	}
	s.open()
}

// plan plans a service again.
func (s *Server) plan(name object.Name, of view.Service) {
	if of.Object == nil {
		delete(s.services, name)
		return
	}
	settings, problems := balancer.Parse(of.Object)
	svc := &service{view: of, settings: settings}
	if old := s.services[name]; old != nil {
		svc.reported = old.reported
	}
	for _, p := range problems {
		svc.problems = append(svc.problems, p.Annotation+": "+p.Message)
	}
	s.services[name] = svc
	s.build(svc)
}

// build plans the ports of a service, whose settings are known.
func (s *Server) build(svc *service) {
	result := plan.Build(svc.view.Object, svc.view.Slices, &svc.settings, &plan.Facts{Zone: s.zone, Groups: s.opts.Groups, Usable: s.usable})
	svc.ports = result.Ports
	svc.problems = append(svc.problems, result.Problems...)
	s.report(svc)
}

// report writes an Event for each problem that the service did not have before.
func (s *Server) report(svc *service) {
	for _, text := range svc.problems {
		if !slices.Contains(svc.reported, text) {
			s.opts.Warn(svc.view.Object, reasonSettings, text)
		}
	}
	svc.reported = slices.Clone(svc.problems)
}

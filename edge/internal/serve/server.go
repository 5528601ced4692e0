package serve

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/wake"
	"portolan.dev/services/nodeview"
	"portolan.dev/services/object"

	"portolan.dev/edge/internal/accesslog"
	"portolan.dev/edge/internal/agent"
	"portolan.dev/edge/internal/certs"
	"portolan.dev/edge/internal/health"
	"portolan.dev/edge/internal/plan"
	"portolan.dev/edge/internal/view"
)

// certificatesEvery is the time between two checks of certificates, which expire without a change.
const certificatesEvery = time.Hour

// retryEvery is the time after which ports that could not be opened are tried again.
const retryEvery = time.Second

// Options are the settings of a Server.
type Options struct {
	View   *view.View
	Groups map[string][]netip.Prefix // named range sets
	// Ranges are the ranges in which the edge may listen; empty: everywhere.
	Ranges []netip.Prefix
	Limits Limits

	Certs  *certs.Store
	Logs   *accesslog.Logs // nil: the edge has no folder for access logs
	Checks *health.Checker
	Agent  *agent.Client
	// Guard catches panics of the work for one service.
	Guard *guard.Guard
	// Warn writes an Event about a service.
	Warn    func(svc *corev1.Service, reason, message string)
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Limits bound the resources that clients can occupy.
type Limits struct {
	Handshake     time.Duration // for a PROXY header, a TLS handshake, the head of a request
	Connections   int           // connections of one port
	PerClient     int           // connections of one client at one port; 0: no limit
	Handshakes    int           // unfinished handshakes of one port
	MaxHeaderSize int           // of the head of a request, in bytes
}

// Server serves the ports of all services. Make it with New, then call Run once.
type Server struct {
	opts    Options
	metrics *metrics
	wake    wake.Signal
	life    context.Context // ends connections that drain
	end     context.CancelFunc
	running sync.WaitGroup // ports and handlers that drain
	judged  judged
	recert  atomic.Bool // certificates have changed

	mu       sync.Mutex // guards the fields below
	zone     string
	services map[object.Name]*service
	// unplanned has the services with a plan that panicked, which are served as before.
	unplanned map[object.Name]nodeview.Service
	claims    map[netip.AddrPort]map[object.Name]plan.Port // by frontend
	ports     map[netip.AddrPort]*port
	closed    map[*port]struct{} // planned ports that are not open yet
	draining  map[*port]struct{} // ports with connections that are no longer planned
	stopped   bool               // no port is opened any more
}

// New returns a server that serves nothing yet.
func New(o Options) *Server {
	s := &Server{
		opts: o, wake: wake.New(),
		services: map[object.Name]*service{}, unplanned: map[object.Name]nodeview.Service{}, claims: map[netip.AddrPort]map[object.Name]plan.Port{},
		ports: map[netip.AddrPort]*port{}, closed: map[*port]struct{}{}, draining: map[*port]struct{}{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.metrics = newMetrics(o.Metrics, s)
	return s
}

// Changed makes the server read the view again, and check again which addresses belong to the machine.
func (s *Server) Changed() {
	s.wake.Send()
}

// CertificatesChanged makes the server check again for problems of certificates.
func (s *Server) CertificatesChanged() {
	s.recert.Store(true)
	s.Changed()
}

// Run serves until ctx is done. Then it closes all ports and ends all connections.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	expiry := time.NewTicker(certificatesEvery)
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-expiry.C:
			s.CertificatesChanged()
		case <-s.wake:
			s.sync()
		case <-retry.C:
			s.openClosed()
		}
	}
}

// sync plans the services that have changed, and changes their ports.
func (s *Server) sync() {
	batch := s.opts.View.NextBatch(false)
	certificates := s.recert.Swap(false)
	if batch.Others != nil {
		s.opts.Certs.SetSecrets(batch.Others)
		certificates = true
	}
	s.mu.Lock()
	s.zone = view.Zone(batch.Self)
	for name, of := range batch.Services {
		s.guardedSet(name, of)
	}
	for name := range s.judged.take() {
		if svc := s.services[name]; svc != nil && !svc.settings.CrossZone {
			s.setAgain(name, svc)
		}
	}
	if certificates {
		s.judgeCertificates()
	}
	s.mu.Unlock()
	s.openClosed()
}

// Drain closes all ports, and waits until their connections have ended, or until ctx is done.
func (s *Server) Drain(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.end)
	defer stop()
	s.mu.Lock()
	s.stopped = true
	for addr, p := range s.ports {
		s.drop(addr, p, forever)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// close ends all connections and closes all ports.
func (s *Server) close() {
	s.end()
	s.Drain(s.life)
}

// service is a service with its last plan.
type service struct {
	objects  nodeview.Service
	settings *balancer.Settings
	result   plan.Result
	problems []problem // of settings and plan
	reported map[problem]bool
}

// problem is a reason why the edge does not do as a service asks.
type problem struct{ reason, message string }

// Reasons of Events about services.
const (
	reasonSettings     = "LoadBalancerSettings"
	reasonInvalid      = "InvalidServiceOrEndpoint"
	reasonListen       = "FailedToListen"
	reasonAddressInUse = "AddressInUse"
)

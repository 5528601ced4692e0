package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/token"
)

// DefaultMaxMessage is the default limit of the size of a message, in bytes.
const DefaultMaxMessage = 4 << 20

const (
	// streamWindow and connWindow are the number of bytes that a peer may send ahead on a stream
	// and on a connection. They are fixed, because measuring a connection's capacity costs a ping
	// and its answer for most messages.
	streamWindow = 1 << 20
	connWindow   = 4 << 20
	// streamWorkers is the number of goroutines that handle one call after the other, so that their
	// stacks have grown already. Further calls get a new goroutine each.
	streamWorkers = 64
	// callsPerConn is the number of calls that a connection may have open at a time. Clients of gRPC
	// wait before they open more.
	callsPerConn = 1000
)

// cancelGrace is the time that cancelled handlers have to return.
const cancelGrace = 10 * time.Second

// ServerOptions are the options of a server. Log, Metrics and Health are required; the other fields
// have defaults.
type ServerOptions struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Health  *health.Registry

	// Identity is the server's certificate for mutual TLS. If it is nil, connections are not
	// encrypted, and every client that has the Token may make every call.
	Identity *identity.Source
	// Authorizer decides which calls the server answers. It is required if there is an identity,
	// and not used otherwise.
	Authorizer Authorizer
	// Token, if not nil, is required in every call over TCP, except for the health service and
	// reflection. It is not used if there is an identity.
	Token *token.Token

	// MaxMessage is the limit of the size of messages in both directions, in bytes; 0 means
	// DefaultMaxMessage.
	MaxMessage int
	// MaxRequest, if not nil, returns the limit of the size of requests of a method in bytes. If it
	// returns 0, the limit is MaxMessage. Larger requests are refused with RESOURCE_EXHAUSTED before
	// they are decoded. The method has its full name, such as /package.Service/Method.
	MaxRequest func(method string) int
	// DefaultTimeout is the timeout of unary calls without a deadline; 0 means 30 s.
	DefaultTimeout time.Duration
	// DrainTimeout is the time that calls have to end after the server was stopped; 0 means 5 s.
	DrainTimeout time.Duration
	// SendTimeout is the time that one message of a stream may wait for the client to read; 0 means
	// 20 s. Then the stream ends with RESOURCE_EXHAUSTED. If the server has an identity, the
	// connection is closed after the same time again.
	SendTimeout time.Duration
	// MaxStreams is the limit of the streams that are open at a time; 0 means 20000. Further ones
	// are refused with RESOURCE_EXHAUSTED.
	MaxStreams int
	// MaxStreamsPerIdentity is the same limit for each identity, on all its connections together; 0
	// means 100. An identity that several machines share, such as an operator's or a controller's,
	// has the limit for each address that it connects from, so that one program cannot take the
	// streams of the others. Node agents and workloads belong to one machine, so their limit does
	// not depend on the address. It is not used without an identity.
	MaxStreamsPerIdentity int
	// MaxConnectionAge is the time after which clients must connect again, give or take a tenth; 0
	// means 1 h. Calls that are under way finish, and streams have a sixth of this time to end. It
	// is not used without an identity. Clients that connect again send their current certificate, and
	// are distributed over the replicas again.
	MaxConnectionAge time.Duration
	// Audit is the audit log. The zero value records nothing.
	Audit Audit
	// Extra is passed to gRPC, for example interceptors.
	Extra []grpc.ServerOption
}

func (o ServerOptions) withDefaults() ServerOptions {
	if o.MaxMessage == 0 {
		o.MaxMessage = DefaultMaxMessage
	}
	if o.DefaultTimeout == 0 {
		o.DefaultTimeout = 30 * time.Second
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 5 * time.Second
	}
	if o.SendTimeout == 0 {
		o.SendTimeout = 20 * time.Second
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = 20000
	}
	if o.MaxStreamsPerIdentity == 0 {
		o.MaxStreamsPerIdentity = 100
	}
	if o.MaxConnectionAge == 0 {
		o.MaxConnectionAge = time.Hour
	}
	return o
}

// keepalive returns the times after which the server checks whether a client is still there, and
// after which it ends a connection. If certificates have a short lifetime, a connection lasts only a part
// of it, so that clients send their renewed certificates long before the old ones expire.
func (o ServerOptions) keepalive() keepalive.ServerParameters {
	params := keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}
	if o.Identity != nil {
		cert := o.Identity.Certificate()
		params.MaxConnectionAge = min(o.MaxConnectionAge, cert.NotAfter.Sub(cert.NotBefore)/8)
		params.MaxConnectionAgeGrace = params.MaxConnectionAge / 6
	}
	return params
}

func (o ServerOptions) credentials() grpc.ServerOption {
	if o.Identity == nil {
		return grpc.EmptyServerOption{}
	}
	return grpc.Creds(o.Identity.ServerCredentials())
}

// Server is a gRPC server of Portolan. Register services before calling Serve.
type Server struct {
	opts    ServerOptions
	log     *slog.Logger
	metrics *metrics
	grpc    *grpc.Server
	methods map[string]bool // full names of the served methods, true for streams; set by Serve
	limits  *streamLimits

	handlers   sync.WaitGroup  // of streams
	draining   context.Context //nolint:containedctx // the life of the server, which ends its streams
	startDrain context.CancelFunc
	complete   sync.Once
	health     *grpchealth.Server
}

// Server can register services like a *grpc.Server.
var _ reflection.GRPCServer = (*Server)(nil)

// NewServer returns a server without services.
func NewServer(o ServerOptions) *Server {
	o = o.withDefaults()
	s := &Server{opts: o, log: o.Log, metrics: newMetrics(o.Metrics), health: grpchealth.NewServer()}
	s.limits = newStreamLimits(o.MaxStreams, o.MaxStreamsPerIdentity, s.metrics.refused)
	s.draining, s.startDrain = context.WithCancel(context.Background())
	s.grpc = grpc.NewServer(append([]grpc.ServerOption{
		o.credentials(),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.InTapHandle(s.admit),
		grpc.MaxConcurrentStreams(callsPerConn),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
		grpc.MaxRecvMsgSize(o.MaxMessage),
		grpc.RPCDecompressor(noCompression{}), //nolint:staticcheck // nothing else refuses a registered compression
		grpc.MaxSendMsgSize(o.MaxMessage),
		grpc.WaitForHandlers(true),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.NumStreamWorkers(streamWorkers),
		// Clients ping every 20 s (see dial). Connections of clients that ping far more often are
		// closed.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(o.keepalive()),
	}, o.Extra...)...)
	return s
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.grpc.RegisterService(s.bounded(desc), impl)
}

// GetServiceInfo returns the registered services.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo { return s.grpc.GetServiceInfo() }

// Serve answers calls on lis until ctx is done. Then the health service reports NOT_SERVING,
// streams end with UNAVAILABLE, and unary calls have DrainTimeout to finish. Serve closes lis, and
// returns nil if ctx ended it. A server with an identity does not start unless its
// authorizer has a rule for every method.
func (s *Server) Serve(ctx context.Context, lis net.Listener) error {
	s.complete.Do(func() {
		healthpb.RegisterHealthServer(s.grpc, s.health)
		reflection.Register(s.grpc)
		s.methods = methodsOf(s.grpc.GetServiceInfo())
	})
	if err := s.checkAuthorizer(); err != nil {
		return errors.Join(err, lis.Close())
	}
	stopWatching := s.opts.Health.Watch(s.showHealth)
	defer stopWatching()

	failed := make(chan error, 1)
	go func() { failed <- s.grpc.Serve(departures{lis}) }()
	select {
	case err := <-failed:
		s.startDrain()
		s.grpc.Stop()
		return fmt.Errorf("serve %s: %w", lis.Addr(), err)
	case <-ctx.Done():
	}
	stopErr := s.stop()
	// The server returns ErrServerStopped if it was stopped before it started to serve.
	if err := <-failed; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve %s: %w", lis.Addr(), err)
	}
	return stopErr
}

// methodsOf returns the full names of the methods of services. The value is true for streams.
func methodsOf(services map[string]grpc.ServiceInfo) map[string]bool {
	methods := map[string]bool{}
	for service, info := range services {
		for _, m := range info.Methods {
			methods["/"+service+"/"+m.Name] = m.IsServerStream || m.IsClientStream
		}
	}
	return methods
}

// errNoAuthorizer is the error of a server that would answer every call of every identity.
var errNoAuthorizer = errors.New("rpc: a server with an identity needs an authorizer")

// checkAuthorizer returns an error unless the server can decide about calls of all its methods.
func (s *Server) checkAuthorizer() error {
	switch {
	case s.opts.Identity == nil:
		return nil
	case s.opts.Authorizer == nil:
		return errNoAuthorizer
	}
	return s.opts.Authorizer.CheckComplete(s.grpc.GetServiceInfo())
}

// showHealth copies the state of the daemon to the health service, for every service and for the
// name "".
func (s *Server) showHealth(ready error) {
	state := healthpb.HealthCheckResponse_SERVING
	if ready != nil {
		state = healthpb.HealthCheckResponse_NOT_SERVING
	}
	s.health.SetServingStatus("", state)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, state)
	}
}

// stop ends all calls. It returns an error if a handler ignores the end of its context, because
// such a handler would otherwise keep the process from ending.
func (s *Server) stop() error {
	s.health.Shutdown()
	s.startDrain()
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		s.grpc.GracefulStop()
		s.handlers.Wait()
	}()
	if waitFor(graceful, s.opts.DrainTimeout) {
		return nil
	}
	s.log.Warn("calls are cut off", "after", s.opts.DrainTimeout)
	go s.grpc.Stop() // waits for handlers too, and makes GracefulStop return
	if waitFor(graceful, cancelGrace) {
		return nil
	}
	return fmt.Errorf("handlers still run %s after they were canceled", cancelGrace)
}

// waitFor waits until done is closed, at most for d. It reports whether done was closed.
func waitFor(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

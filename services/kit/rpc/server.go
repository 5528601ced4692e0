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

	"portolan.dev/services/access"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
)

// DefaultMaxMessage bounds a message, in bytes, unless told otherwise.
const DefaultMaxMessage = 4 << 20

const (
	// What a peer may send ahead on a stream and on a connection, in bytes. They are fixed: finding out what a connection bears costs a ping, and an
	// answer to it, for most messages.
	streamWindow = 1 << 20
	connWindow   = 4 << 20
	// streamWorkers answer calls one after the other, so that their stacks have grown already; calls beyond them get a goroutine each.
	streamWorkers = 64
)

// giveUp is how long handlers may take to notice that they were canceled.
const giveUp = 10 * time.Second

// ServerOptions are what a server needs. Log, Metrics and Health are required,
// the rest has defaults.
type ServerOptions struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Health  *health.Registry

	// Identity is who the server is to its clients, by mutual TLS; nil: it speaks
	// in the clear, and everybody may call everything.
	Identity *identity.Source
	// Access says who may call what, where there is an identity; nil means
	// access.Methods.
	Access access.Table

	// MaxMessage bounds messages in both directions; 0 means DefaultMaxMessage.
	MaxMessage int
	// DefaultTimeout bounds unary calls without a deadline; 0 means 30 s.
	DefaultTimeout time.Duration
	// DrainTimeout bounds how long calls may go on after the server was told
	// to stop; 0 means 5 s.
	DrainTimeout time.Duration
	// Extra is handed to gRPC, for example interceptors.
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
	if o.Access == nil {
		o.Access = access.Methods()
	}
	return o
}

func (o ServerOptions) credentials() grpc.ServerOption {
	if o.Identity == nil {
		return grpc.EmptyServerOption{}
	}
	return grpc.Creds(o.Identity.ServerCredentials())
}

// Server is a gRPC server of Portolan. Register services, then Serve.
type Server struct {
	opts    ServerOptions
	log     *slog.Logger
	metrics *metrics
	grpc    *grpc.Server

	draining   context.Context //nolint:containedctx // the life of the server, which ends its streams
	startDrain context.CancelFunc
	complete   sync.Once
	health     *grpchealth.Server
}

// Server registers services like a *grpc.Server.
var _ reflection.GRPCServer = (*Server)(nil)

// NewServer returns a server without services.
func NewServer(o ServerOptions) *Server {
	o = o.withDefaults()
	s := &Server{opts: o, log: o.Log, metrics: newMetrics(o.Metrics), health: grpchealth.NewServer()}
	s.draining, s.startDrain = context.WithCancel(context.Background())
	s.grpc = grpc.NewServer(append([]grpc.ServerOption{
		o.credentials(),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
		grpc.MaxRecvMsgSize(o.MaxMessage),
		grpc.MaxSendMsgSize(o.MaxMessage),
		grpc.WaitForHandlers(true),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.NumStreamWorkers(streamWorkers),
		// Clients ping every 20 s (see Dial); what pings far more often is cut off.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}, o.Extra...)...)
	return s
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.grpc.RegisterService(desc, impl)
}

// GetServiceInfo lists what is registered.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo { return s.grpc.GetServiceInfo() }

// Serve answers calls on lis until ctx is done. Then the health service says
// NOT_SERVING, streams end with UNAVAILABLE, and unary calls may finish within
// DrainTimeout. It closes lis, and returns nil when it was stopped. A server with
// an identity does not start when its methods are not those that it has rules
// for.
func (s *Server) Serve(ctx context.Context, lis net.Listener) error {
	s.complete.Do(func() {
		healthpb.RegisterHealthServer(s.grpc, s.health)
		reflection.Register(s.grpc)
	})
	if s.opts.Identity != nil {
		if err := s.opts.Access.Complete(s.grpc.GetServiceInfo()); err != nil {
			return errors.Join(err, lis.Close())
		}
	}
	stopWatching := s.opts.Health.Watch(s.showHealth)
	defer stopWatching()

	failed := make(chan error, 1)
	go func() { failed <- s.grpc.Serve(lis) }()
	select {
	case err := <-failed:
		s.startDrain()
		s.grpc.Stop()
		return fmt.Errorf("serve %s: %w", lis.Addr(), err)
	case <-ctx.Done():
	}
	stopErr := s.stop()
	// ErrServerStopped: told to stop before it had begun.
	if err := <-failed; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve %s: %w", lis.Addr(), err)
	}
	return stopErr
}

// showHealth gives the state of the daemon to the health service, under the
// name of every service and under "".
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

// stop ends all calls. It returns an error if a handler ignores the end of its
// context: such a handler would otherwise keep the process from ending.
func (s *Server) stop() error {
	s.health.Shutdown()
	s.startDrain()
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		s.grpc.GracefulStop()
	}()
	if within(graceful, s.opts.DrainTimeout) {
		return nil
	}
	s.log.Warn("calls are cut off", "after", s.opts.DrainTimeout)
	go s.grpc.Stop() // waits for handlers too, and makes GracefulStop return
	if within(graceful, giveUp) {
		return nil
	}
	return fmt.Errorf("handlers still run %s after they were canceled", giveUp)
}

func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

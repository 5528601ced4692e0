package endpointctl

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	endpointsv1 "portolan.dev/api/endpoints/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/daemon"
	"portolan.dev/services/events"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/lease"
	"portolan.dev/services/queue"

	"portolan.dev/endpointctl/internal/api"
	"portolan.dev/endpointctl/internal/controller"
	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/nodewatch"
)

const (
	syncTimeout = 30 * time.Second
	retryMin    = 50 * time.Millisecond
	retryMax    = 30 * time.Second
	// lastingFailure is how long the syncs of a service fail before the failure is reported.
	lastingFailure = 10 * time.Second
	// recheckInterval is the interval after which endpoints that the registry refused are tried
	// again.
	recheckInterval = time.Minute
)

// Daemon is the endpoint controller. Make it with New, then call Run once.
type Daemon struct {
	log        *slog.Logger
	cfg        Config
	index      *index.Index
	controller *controller.Controller
	nodes      *nodewatch.Watch // nil if nodes are not watched
	follower   *changes.Follower
	events     *events.Recorder // of objects that panic
	group      *lease.Group
	held       holding
	moves      *prometheus.CounterVec
	health     *health.Registry
	server     *rpc.Server
	listener   net.Listener
	registry   *grpc.ClientConn
	renewal    app.Task // renews the certificate
	nats       app.Bus
	synced     chan struct{} // closed when the registry has been read
	once       sync.Once
}

// New builds the daemon and listens.
func New(_ context.Context, cfg Config, host app.Host) (*Daemon, error) {
	d := &Daemon{
		log: host.Log, cfg: cfg, index: index.New(host.Guard), health: host.Health, held: holding{epochs: map[int]uint64{}}, synced: make(chan struct{}),
	}
	if err := d.open(host); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *Daemon) open(host app.Host) (err error) {
	cfg := &d.cfg
	if d.registry, err = host.Network.Dial(cfg.Registry, host.Identity.DialOption(identity.Registry)); err != nil {
		return err
	}
	d.renewal = daemon.Renewal(host, daemon.RenewBy(d.registry))
	if d.nats, err = host.NATS("changes"); err != nil {
		return err
	}
	d.events = events.NewRecorder("endpointctl", "", registryv1.NewEventServiceClient(d.registry), host.Log)
	d.events.Watch(host.Guard)
	d.controller = controller.New(controller.Config{
		Registry: d.registry, Log: host.Log, Metrics: host.Metrics, Index: d.index, Guard: host.Guard,
		Shards: cfg.Shards, MaxPerSlice: cfg.MaxPerSlice, Workers: cfg.Workers,
		LegacyInterval: cfg.LegacyInterval, SyncTimeout: syncTimeout, LastingFailure: lastingFailure, Recheck: recheckInterval,
		Queue: queue.Options{Quiet: cfg.Quiet, Longest: cfg.LongestDelay, RetryMin: retryMin, RetryMax: retryMax},
	})
	if d.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: d.registry, NATS: d.nats, Prefix: cfg.NATSPrefix, Kinds: index.Kinds(),
		Guard: host.Guard, Log: host.Log, Metrics: host.Metrics, Health: host.Health, Tracer: host.Tracer, Revocations: host.Identity.DenyList(), Apply: d.apply,
	}); err != nil {
		return err
	}
	if cfg.NodeGrace > 0 {
		d.nodes = nodewatch.New(nodewatch.Config{
			Registry: d.registry, Log: host.Log, Metrics: host.Metrics, Guard: host.Guard, Nodes: d.index.Nodes, Grace: cfg.NodeGrace,
		})
	}
	if d.group, err = d.newGroup(); err != nil {
		return err
	}
	d.showHeld()
	d.registerMetrics(host.Metrics)
	d.server = daemon.NewServer(host, access.Methods())
	endpointsv1.RegisterEndpointControllerServiceServer(d.server, api.New(api.Config{
		Follower: d.follower, Controller: d.controller, Index: d.index, MaxPerSlice: cfg.MaxPerSlice, Shards: cfg.Shards,
		Held: func() ([]int, uint64, string) { return d.held.shards(), d.held.epoch(nodesShard), d.held.waiting() },
	}))
	d.listener, err = cfg.Listen(host.Network)
	return err
}

// apply applies a batch of the change stream.
func (d *Daemon) apply(ctx context.Context, batch []changes.Change, revision uint64) error {
	if err := d.controller.Apply(ctx, batch, revision); err != nil {
		return err
	}
	d.once.Do(func() { close(d.synced) })
	return nil
}

// followHeartbeats records the heartbeats of nodes.
func (d *Daemon) followHeartbeats(ctx context.Context) error {
	if d.nodes == nil {
		return nil
	}
	stop, err := changes.SubscribeHeartbeats(d.nats, d.cfg.NATSPrefix, d.nodes.RecordHeartbeat)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return stop()
}

// Run works until ctx is done, and then releases the leases.
func (d *Daemon) Run(ctx context.Context) error {
	d.log.Info("endpointctl listens", "addr", d.listener.Addr().String())
	err := app.RunTasks(ctx,
		app.Task{Name: "grpc", Run: func(ctx context.Context) error { return d.server.Serve(ctx, d.listener) }},
		app.Task{Name: "follower", Run: d.follower.Run},
		app.Task{Name: "events", Run: d.events.Run},
		app.Task{Name: "election", Run: d.runElection},
		app.Task{Name: "heartbeats", Run: d.followHeartbeats},
		d.renewal,
	)
	return errors.Join(err, d.close())
}

func (d *Daemon) close() error {
	if d.nats != nil {
		d.nats.Close()
	}
	if d.registry != nil {
		return d.registry.Close()
	}
	return nil
}

// Addr returns the address of the gRPC API.
func (d *Daemon) Addr() net.Addr { return d.listener.Addr() }

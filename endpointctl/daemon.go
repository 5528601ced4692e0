package endpointctl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	endpointsv1 "portolan.dev/api/endpoints/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/api"
	"portolan.dev/endpointctl/internal/controller"
	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/lease"
	"portolan.dev/endpointctl/internal/nodewatch"
	"portolan.dev/endpointctl/internal/packing"
	"portolan.dev/endpointctl/internal/queue"
)

const (
	syncTimeout = 30 * time.Second
	retryMin    = 50 * time.Millisecond
	retryMax    = 30 * time.Second
	// lastingFailure is how long the syncs of a service fail before the failure is reported.
	lastingFailure = 10 * time.Second
	// recheck is the interval after which endpoints that the registry refused are tried again.
	recheck = time.Minute
)

// Daemon is the endpoint controller. Make it with New, then call Run once.
type Daemon struct {
	log        *slog.Logger
	cfg        Config
	index      *index.Index
	controller *controller.Controller
	nodes      *nodewatch.Watch // nil if nodes are not watched
	follower   *changes.Follower
	elector    *lease.Elector
	server     *rpc.Server
	listener   net.Listener
	registry   *grpc.ClientConn
	nats       app.Bus
	synced     chan struct{} // closed when the registry has been read
	once       sync.Once
	epoch      atomic.Uint64 // 0 if this replica does not lead
}

var _ api.State = (*Daemon)(nil)

// New builds the daemon and listens.
func New(_ context.Context, cfg Config, host app.Host) (*Daemon, error) {
	d := &Daemon{log: host.Log, cfg: cfg, index: index.New(), synced: make(chan struct{})}
	if err := d.open(host); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *Daemon) open(host app.Host) (err error) {
	cfg := &d.cfg
	if d.registry, err = host.Network.Dial(cfg.Registry, host.Identity.Peer(identity.Registry)); err != nil {
		return err
	}
	if d.nats, err = host.NATS("changes"); err != nil {
		return err
	}
	d.controller = controller.New(controller.Config{
		Registry: d.registry, Log: host.Log, Metrics: host.Metrics, Index: d.index,
		MaxPerSlice: cfg.MaxPerSlice, Workers: cfg.Workers, SyncTimeout: syncTimeout, LastingFailure: lastingFailure, Recheck: recheck,
		Queue: queue.Options{Quiet: cfg.Quiet, Longest: cfg.LongestDelay, RetryMin: retryMin, RetryMax: retryMax},
	})
	if d.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: d.registry, NATS: d.nats, Prefix: cfg.NATSPrefix, Kinds: index.Kinds(),
		Log: host.Log, Metrics: host.Metrics, Health: host.Health, Tracer: host.Tracer, Apply: d.apply,
	}); err != nil {
		return err
	}
	if cfg.NodeGrace > 0 {
		d.nodes = nodewatch.New(nodewatch.Config{
			Registry: d.registry, Log: host.Log, Metrics: host.Metrics, Nodes: d.index.Nodes, Grace: cfg.NodeGrace,
		})
	}
	if d.elector, err = d.newElector(); err != nil {
		return err
	}
	host.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_endpointctl_leader", Help: "Whether this replica leads.",
	}, func() float64 { return float64(min(d.epoch.Load(), 1)) }))
	d.server = daemon.NewServer(host, access.Methods())
	endpointsv1.RegisterEndpointControllerServiceServer(d.server, api.New(d, d.index, cfg.MaxPerSlice))
	d.listener, err = cfg.Listen(host.Network)
	return err
}

func (d *Daemon) newElector() (*lease.Elector, error) {
	identity := d.cfg.Identity
	if identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("host name: %w", err)
		}
		identity = host + "-" + rand.Text()[:8]
	}
	return lease.New(lease.Config{
		Client: registryv1.NewLeaseServiceClient(d.registry), Log: d.log, Namespace: object.DefaultNamespace,
		Name: d.cfg.LeaseName, Identity: identity, Duration: d.cfg.LeaseDuration, Lead: d.lead,
	}), nil
}

// apply applies a batch of the change stream.
func (d *Daemon) apply(ctx context.Context, batch []changes.Change, revision uint64) error {
	if err := d.controller.Apply(ctx, batch, revision); err != nil {
		return err
	}
	d.once.Do(func() { close(d.synced) })
	return nil
}

// lead runs the tasks that only the leader may run. It first waits until this replica has read all
// writes of the previous leader, which can write no more.
func (d *Daemon) lead(ctx context.Context, epoch, revision uint64) {
	if !d.caughtUp(ctx, revision) {
		return
	}
	d.epoch.Store(epoch)
	defer d.epoch.Store(0)
	var parts sync.WaitGroup
	parts.Go(func() { d.controller.Lead(ctx) })
	if d.nodes != nil {
		parts.Go(func() { d.nodes.Lead(ctx) })
	}
	parts.Wait()
}

// caughtUp waits for a revision. It returns false if ctx is done first.
func (d *Daemon) caughtUp(ctx context.Context, revision uint64) bool {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for d.follower.Revision() < revision {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// elect competes for the lease once the registry has been read.
func (d *Daemon) elect(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.synced:
		return d.elector.Run(ctx)
	}
}

// listen records the heartbeats of nodes.
func (d *Daemon) listen(ctx context.Context) error {
	if d.nodes == nil {
		return nil
	}
	stop, err := changes.SubscribeHeartbeats(d.nats, d.cfg.NATSPrefix, d.nodes.Heard)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return stop()
}

// Run works until ctx is done, and then releases the lease.
func (d *Daemon) Run(ctx context.Context) error {
	d.log.Info("endpointctl listens", "addr", d.listener.Addr().String())
	err := app.RunTasks(ctx,
		app.Task{Name: "grpc", Run: func(ctx context.Context) error { return d.server.Serve(ctx, d.listener) }},
		app.Task{Name: "follower", Run: d.follower.Run},
		app.Task{Name: "election", Run: d.elect},
		app.Task{Name: "heartbeats", Run: d.listen},
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

// Synced implements api.State.
func (d *Daemon) Synced() bool { return d.follower.Synced() }

// Revision implements api.State.
func (d *Daemon) Revision() uint64 { return d.follower.Revision() }

// Leading implements api.State.
func (d *Daemon) Leading() (epoch uint64, leading bool) {
	epoch = d.epoch.Load()
	return epoch, epoch > 0
}

// Pending implements api.State.
func (d *Daemon) Pending() int { return d.controller.Pending() }

// Failure implements api.State.
func (d *Daemon) Failure(key index.Key) (controller.Failure, bool) { return d.controller.Failure(key) }

// Refused implements api.State.
func (d *Daemon) Refused(key index.Key) packing.Refused { return d.controller.Refused(key) }

// Resync implements api.State.
func (d *Daemon) Resync() int { return d.controller.Resync() }

package lbctl

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/daemon"
	"portolan.dev/services/events"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/wake"
	"portolan.dev/services/lease"
	"portolan.dev/services/queue"
	"portolan.dev/services/spec"

	"portolan.dev/lbctl/announce"
	"portolan.dev/lbctl/internal/controller"
	"portolan.dev/lbctl/internal/offers"
	"portolan.dev/lbctl/internal/pool"
	"portolan.dev/lbctl/internal/providers"
	"portolan.dev/lbctl/internal/view"
)

// builtin are the built-in providers.
var builtin = []pool.Kind{pool.Nodes, pool.Edges}

// Daemon is the controller of load balancers. Make it with New, then call Run once.
type Daemon struct {
	log        *slog.Logger
	cfg        Config
	guard      *guard.Guard
	view       *view.View
	pool       *pool.Provider // a built-in provider; all of them have the same pools
	builtin    []*builtinServer
	providers  *providers.Set
	controller *controller.Controller
	announcer  *announce.Server
	announcers spec.Selector // of the nodes that may announce
	changed    wake.Signal   // the view has changed
	announced  wake.Signal   // the state of an address may have changed
	follower   *changes.Follower
	events     *events.Recorder // of objects that panic
	elector    *lease.Group
	reporter   *offers.Reporter
	server     *rpc.Server
	listener   net.Listener
	registry   *grpc.ClientConn
	allocator  *grpc.ClientConn
	renewal    app.Task // renews the certificate
	nats       app.Bus
	synced     chan struct{} // closed when the registry has been read
	once       sync.Once
	epoch      atomic.Uint64 // 0 if this replica does not lead
}

// New builds the daemon and listens.
func New(_ context.Context, cfg Config, host app.Host) (*Daemon, error) {
	d := &Daemon{log: host.Log, cfg: cfg, guard: host.Guard, view: view.New(host.Guard), synced: make(chan struct{}), changed: wake.New(), announced: wake.New()}
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
	if d.allocator, err = host.Network.Dial(cfg.Allocator, host.Identity.DialOption(identity.Allocator)); err != nil {
		return err
	}
	d.renewal = daemon.Renewal(host, daemon.RenewBy(d.registry))
	if d.nats, err = host.NATS("changes"); err != nil {
		return err
	}
	d.events = events.NewRecorder("lbctl", "", registryv1.NewEventServiceClient(d.registry), host.Log)
	d.events.Watch(host.Guard)
	if err = d.openProviders(host); err != nil {
		return err
	}
	d.controller = controller.New(controller.Config{
		Registry: d.registry, Log: host.Log, Metrics: host.Metrics, View: d.view, Guard: host.Guard, Providers: d.providers, Workers: cfg.Workers,
		Queue:       queue.Options{Longest: afterChange, RetryMin: cfg.RetryMin, RetryMax: cfg.RetryMax},
		PoolsDigest: d.pool.Digest, PoolsInterval: cfg.PoolsInterval,
	})
	if d.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: d.registry, NATS: d.nats, Prefix: cfg.NATSPrefix, Kinds: view.Kinds(), Keep: view.Keeps, Trim: view.Trim,
		Guard: host.Guard, Log: host.Log, Metrics: host.Metrics, Health: host.Health, Tracer: host.Tracer, Revocations: host.Identity.DenyList(), Apply: d.apply,
	}); err != nil {
		return err
	}
	if d.elector, err = d.newElector(); err != nil {
		return err
	}
	d.registerMetrics(host.Metrics)
	if err = d.openAnnouncer(host); err != nil {
		return err
	}
	d.server = daemon.NewServer(host, access.Methods(), func(o *rpc.ServerOptions) {
		o.MaxRequest = maxRequest
	})
	loadbalancerv1.RegisterAnnouncerServiceServer(d.server, d.announcer)
	d.listener, err = cfg.Listen(host.Network)
	return err
}

// maxRequest returns the largest request of a method in bytes, or 0 for the usual limit.
func maxRequest(method string) int {
	if method == loadbalancerv1.AnnouncerService_Announce_FullMethodName {
		return announce.MaxMessage
	}
	return 0
}

// apply applies a batch of the change stream.
func (d *Daemon) apply(ctx context.Context, batch []changes.Change, revision uint64) error {
	if err := d.controller.Apply(ctx, batch, revision); err != nil {
		return err
	}
	d.changed.Send()
	d.once.Do(func() { close(d.synced) })
	return nil
}

// Run works until ctx is done, and then releases the lease.
func (d *Daemon) Run(ctx context.Context) error {
	d.log.Info("lbctl listens", "addr", d.listener.Addr().String())
	tasks := []app.Task{
		{Name: "grpc", Run: func(ctx context.Context) error { return d.server.Serve(ctx, d.listener) }},
		{Name: "follower", Run: d.follower.Run},
		{Name: "wanted", Run: d.runWanted},
		{Name: "events", Run: d.events.Run},
		{Name: "election", Run: d.runElection},
		d.renewal,
	}
	for i, server := range d.builtin {
		tasks = append(tasks, app.Task{Name: "provider " + builtin[i].Name, Run: server.run})
	}
	return errors.Join(app.RunTasks(ctx, tasks...), d.close())
}

func (d *Daemon) close() error {
	if d.nats != nil {
		d.nats.Close()
	}
	var errs []error
	if d.providers != nil {
		errs = append(errs, d.providers.Close())
	}
	for _, conn := range []*grpc.ClientConn{d.registry, d.allocator} {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	return errors.Join(errs...)
}

// Addr returns the address of the gRPC API.
func (d *Daemon) Addr() net.Addr { return d.listener.Addr() }

// newPool returns a built-in provider.
func (d *Daemon) newPool(kind pool.Kind, shares *pool.Shares) *pool.Provider {
	rules := pool.Rules{Manual: d.cfg.ManualPools, Internal: d.cfg.InternalPools, Namespaces: map[string][]string{}}
	for _, p := range d.cfg.PoolNamespaces {
		rules.Namespaces[p.Pool] = p.Namespaces
	}
	return pool.New(pool.Config{Kind: kind, Allocator: allocatorv1.NewAllocatorServiceClient(d.allocator), Shares: shares, Rules: rules})
}

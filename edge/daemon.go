package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	edgev1 "portolan.dev/api/edge/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/viewfile"
	"portolan.dev/services/daemon"
	"portolan.dev/services/events"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/wake"

	"portolan.dev/edge/internal/accesslog"
	"portolan.dev/edge/internal/agent"
	"portolan.dev/edge/internal/certs"
	"portolan.dev/edge/internal/health"
	"portolan.dev/edge/internal/serve"
	"portolan.dev/edge/internal/view"
)

// stopCheck is the health check that fails while the daemon stops.
const stopCheck = "stop"

// Daemon is an edge. Make it with New, then call Run once.
type Daemon struct {
	cfg  Config
	name string // of the node
	host app.Host
	log  *slog.Logger

	registry *grpc.ClientConn
	agent    *grpc.ClientConn // nil: none is configured
	nats     app.Bus
	grpc     *rpc.Server
	listener net.Listener

	view     *view.View
	follower *changes.Follower
	events   *events.Recorder
	certs    *certs.Store
	logs     *accesslog.Logs // nil: no folder is configured
	checks   *health.Checker
	local    *agent.Client
	server   *serve.Server
	stopping atomic.Bool

	home        *viewfile.Home // of the view on disk
	viewChanged wake.Signal    // sent when the view has changed
}

// New builds the daemon and listens for its API. It serves addresses once it runs.
func New(_ context.Context, cfg Config, host app.Host) (*Daemon, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	name, err := daemon.NodeName(cfg.NodeName, host.Identity)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		cfg: cfg, name: name, host: host, log: host.Log.With("node", name), view: view.New(name, host.Guard), viewChanged: wake.New(),
		home: &viewfile.Home{Dir: cfg.DataDir, Use: "serving", Log: host.Log.With("node", name), Health: host.Health},
	}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *Daemon) open() (err error) {
	if d.registry, err = d.host.Network.Dial(d.cfg.Registry, d.host.Identity.DialOption(identity.Registry)); err != nil {
		return err
	}
	if d.cfg.Agent != "" {
		if d.agent, err = d.host.Network.Dial(d.cfg.Agent, d.host.Identity.DialOption(identity.NodeAgent)); err != nil {
			return err
		}
	}
	if d.nats, err = d.host.NATS("edge-" + d.name); err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	d.events = events.NewRecorder("edge", d.name, registryv1.NewEventServiceClient(d.registry), d.log)
	d.events.Watch(d.host.Guard)
	if err := d.assemble(); err != nil {
		return err
	}
	if d.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: d.registry, NATS: d.nats, Prefix: d.cfg.NATSPrefix, Kinds: view.Kinds, Keep: view.Keeps(d.name),
		Guard: d.host.Guard, Log: d.log, Metrics: d.host.Metrics, Health: d.host.Health, Tracer: d.host.Tracer, Revocations: d.host.Identity.DenyList(), Apply: d.apply,
	}); err != nil {
		return err
	}
	d.grpc = daemon.NewServer(d.host, access.Methods())
	edgev1.RegisterEdgeServiceServer(d.grpc, &api{daemon: d})
	d.listener, err = d.cfg.Listen(d.host.Network)
	return err
}

// apply applies a batch of the follower's changes.
func (d *Daemon) apply(_ context.Context, batch []changes.Change, revision uint64) error {
	d.view.Apply(batch, revision)
	d.home.Leave()
	d.server.Changed()
	d.viewChanged.Send()
	return nil
}

// Run serves until ctx is done. Then the node no longer announces the edge's addresses, and connections may
// continue for StopTimeout.
func (d *Daemon) Run(ctx context.Context) error {
	d.loadView()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	outlives := func(run func(context.Context) error) func(context.Context) error {
		return func(context.Context) error { return run(serving) }
	}
	d.log.Info("edge runs", "addr", d.listener.Addr().String(), "agent", d.cfg.Agent)
	err := app.RunTasks(ctx,
		app.Task{Name: "grpc", Run: func(ctx context.Context) error { return d.grpc.Serve(ctx, d.listener) }},
		app.Task{Name: "follower", Run: d.follower.Run},
		app.Task{Name: "events", Run: d.events.Run},
		app.Task{Name: "certificates", Run: outlives(d.certs.Run)},
		app.Task{Name: "checks", Run: outlives(d.checks.Run)},
		app.Task{Name: "agent", Run: outlives(d.local.Run)},
		app.Task{Name: "serve", Run: outlives(d.server.Run)},
		app.Task{Name: "stop", Run: func(ctx context.Context) error {
			<-ctx.Done()
			d.drain()
			stop()
			return nil
		}},
		app.Task{Name: "view", Run: func(ctx context.Context) error { return d.home.KeepView(ctx, d.follower, d.view, d.viewChanged) }},
		daemon.Renewal(d.host, daemon.RenewBy(d.registry)),
	)
	if d.logs != nil {
		d.logs.Close()
	}
	return errors.Join(err, d.close())
}

// loadView loads the view from disk, so that the edge serves while the registry is away.
func (d *Daemon) loadView() {
	loaded, err := d.home.Begin(d.view.Load)
	if err != nil {
		d.log.Warn("the view on disk is not used: nothing is served before the registry answers", "err", err)
	}
	if loaded {
		d.server.Changed()
	}
}

// drain tells the agent to move the addresses to other nodes, and accepts connections for LameDuck, until that is
// done. Then it waits until all connections have ended, for StopTimeout at most.
func (d *Daemon) drain() {
	d.stopping.Store(true)
	d.host.Health.Set(stopCheck, errors.New("stopping"))
	d.local.Drain()
	if d.cfg.LameDuck > 0 {
		<-time.After(d.cfg.LameDuck)
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.StopTimeout)
	defer cancel()
	d.server.Drain(ctx)
}

// close closes the connections and the listener.
func (d *Daemon) close() error {
	if d.nats != nil {
		d.nats.Close()
	}
	if d.listener != nil {
		d.listener.Close() //nolint:errcheck // a server that has run has closed it
	}
	var errs []error
	for _, conn := range []*grpc.ClientConn{d.registry, d.agent} {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	return errors.Join(errs...)
}

// Addr returns the address of the gRPC API.
func (d *Daemon) Addr() net.Addr { return d.listener.Addr() }

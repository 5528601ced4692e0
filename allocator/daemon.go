package allocator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/daemon"
	"portolan.dev/services/events"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"

	"portolan.dev/allocator/internal/api"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/internal/verifier"
	"portolan.dev/allocator/store"
)

// staleAfter is the age at which the view of the registry counts as outdated.
const staleAfter = 30 * time.Second

// Daemon is the allocator. Make it with New, then call Run once.
type Daemon struct {
	log      *slog.Logger
	store    store.Store
	engine   *engine.Engine
	verifier *verifier.Verifier
	follower *changes.Follower
	events   *events.Recorder // of objects that panic
	server   *rpc.Server
	listener net.Listener
	registry *grpc.ClientConn
	renewal  app.Task // renews the certificate
	nats     app.Bus
}

// New opens the store, waiting until it is available, creates the configured pools and listens. It
// does not need the registry, because the registry itself needs the allocator. The store is the
// embedded one; package program has Postgres too.
func New(ctx context.Context, cfg Config, host app.Host) (*Daemon, error) {
	return NewOn(ctx, cfg, host, OpenEmbedded)
}

// NewOn is New with a store that the given function opens. NewOn calls the function again while it
// returns [store.ErrUnavailable].
func NewOn(ctx context.Context, cfg Config, host app.Host, open OpenFunc) (*Daemon, error) {
	if err := cfg.ReadStoreFile(); err != nil {
		return nil, fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	s, err := waitForStore(ctx, cfg, host, open)
	if err != nil {
		return nil, err
	}
	d := &Daemon{log: host.Log, store: s}
	if err := d.open(ctx, &cfg, host); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *Daemon) open(ctx context.Context, cfg *Config, host app.Host) (err error) {
	if d.engine, err = engine.New(ctx, engine.Config{Store: d.store, Log: host.Log, Metrics: host.Metrics, Rest: cfg.ReuseDelay}); err != nil {
		return err
	}
	if err := ensurePools(ctx, d.engine, cfg, host.Log); err != nil {
		return err
	}
	if d.registry, err = host.Network.Dial(cfg.Registry, host.Identity.DialOption(identity.Registry)); err != nil {
		return err
	}
	d.renewal = daemon.Renewal(host, daemon.RenewBy(d.registry))
	if d.nats, err = host.NATS("changes"); err != nil {
		return err
	}
	d.events = events.NewRecorder("allocator", "", registryv1.NewEventServiceClient(d.registry), host.Log)
	d.events.Watch(host.Guard)
	objects := verifier.NewRegistry(d.registry)
	d.verifier = verifier.New(verifier.Config{
		Engine: d.engine, Registry: objects, Log: host.Log, Metrics: host.Metrics, Health: host.Health, Guard: host.Guard,
		Grace: cfg.VerifyGrace, Interval: cfg.VerifyInterval,
		ViewCurrent: func() bool { return d.follower.Synced() && d.follower.Age() < staleAfter },
		Epoch:       func() string { return d.follower.Epoch() },
	})
	// The follower does not report to Health: once the verifier has adopted the values of objects,
	// allocating does not depend on the follower.
	if d.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: d.registry, NATS: d.nats, Prefix: cfg.NATSPrefix, Kinds: verifier.Kinds(), Keep: verifier.Keeps, Trim: verifier.Trim,
		Guard: host.Guard, Log: host.Log, Metrics: host.Metrics, Tracer: host.Tracer, Revocations: host.Identity.DenyList(), Apply: d.verifier.Apply,
	}); err != nil {
		return err
	}
	d.server = daemon.NewServer(host, access.Methods())
	allocatorv1.RegisterAllocatorServiceServer(d.server, api.New(d.engine, d.verifier, objects, d.verifier))
	d.listener, err = cfg.Listen(host.Network)
	return err
}

// Addr returns the address at which the gRPC API listens.
func (d *Daemon) Addr() net.Addr { return d.listener.Addr() }

// Run serves until ctx is done.
func (d *Daemon) Run(ctx context.Context) error {
	d.log.Info("allocator listens", "addr", d.listener.Addr().String())
	err := app.RunTasks(ctx,
		app.Task{Name: "grpc", Run: func(ctx context.Context) error { return d.server.Serve(ctx, d.listener) }},
		app.Task{Name: "follower", Run: d.follower.Run},
		app.Task{Name: "verifier", Run: d.verifier.Run},
		app.Task{Name: "events", Run: d.events.Run},
		d.renewal,
	)
	return errors.Join(err, d.close())
}

func (d *Daemon) close() error {
	var errs []error
	if d.nats != nil {
		d.nats.Close()
	}
	if d.registry != nil {
		errs = append(errs, d.registry.Close())
	}
	if d.engine != nil {
		d.engine.Close()
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	return errors.Join(errs...)
}

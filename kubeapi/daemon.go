package kubeapi

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"google.golang.org/grpc"

	"portolan.dev/services/changes"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"

	"portolan.dev/kubeapi/internal/server"
	"portolan.dev/kubeapi/internal/tokens"
	"portolan.dev/kubeapi/internal/upstream"
	"portolan.dev/kubeapi/internal/watchcache"
)

// Daemon serves the API of Kubernetes. Make it with New, then call Run once.
type Daemon struct {
	log      *slog.Logger
	cfg      Config
	cache    *watchcache.Cache
	tokens   *tokens.Table
	follower *changes.Follower
	server   *server.Server
	api      *daemon.HTTPAPI
	listener net.Listener
	registry *grpc.ClientConn
	renewal  app.Task // renews the certificate
	nats     app.Bus
}

// New builds the daemon and listens.
func New(_ context.Context, cfg Config, host app.Host) (*Daemon, error) {
	d := &Daemon{log: host.Log, cfg: cfg, cache: watchcache.New(cfg.History, followed(), host.Guard), api: daemon.NewHTTPAPI(host, cfg.Addr)}
	if err := d.open(host); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// followed returns the names of the kinds that Kubernetes has.
func followed() []string {
	var names []string
	for _, kind := range kinds.All {
		if kind.InKubernetes {
			names = append(names, kind.Name)
		}
	}
	return names
}

func (d *Daemon) open(host app.Host) (err error) {
	cfg := &d.cfg
	if d.registry, err = host.Network.Dial(cfg.Registry, host.Identity.DialOption(identity.Registry)); err != nil {
		return err
	}
	trustDomain := ""
	if host.Identity != nil {
		trustDomain = host.Identity.ID().TrustDomain
	}
	d.tokens = tokens.New(trustDomain, host.Identity.DenyList(), host.Guard)
	d.renewal = daemon.Renewal(host, daemon.RenewBy(d.registry))
	if d.nats, err = host.NATS("changes"); err != nil {
		return err
	}
	if d.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: d.registry, NATS: d.nats, Prefix: cfg.NATSPrefix, Kinds: append(followed(), tokens.Kind),
		Guard: host.Guard, Log: host.Log, Metrics: host.Metrics, Health: host.Health, Tracer: host.Tracer, Revocations: host.Identity.DenyList(), Apply: d.apply,
	}); err != nil {
		return err
	}
	serverConfig := server.Config{
		Registry: upstream.New(d.registry), Cache: d.cache, Audit: host.Audit, Log: host.Log, Metrics: host.Metrics, Health: host.Health, Version: obs.Version(),
		MaxRequests: cfg.MaxRequests, MaxWatches: cfg.MaxWatches, MaxWatchesPerIdentity: cfg.MaxWatchesPerIdentity, SendTimeout: cfg.SendTimeout,
	}
	if d.api.Secured() {
		serverConfig.Identify = (&clients{api: d.api, tokens: d.tokens}).identify
	}
	d.server = server.New(serverConfig)
	d.registerMetrics(host.Metrics)
	d.listener, err = cfg.Listen(host.Network)
	return err
}

// apply applies a batch of the change stream.
func (d *Daemon) apply(_ context.Context, batch []changes.Change, revision uint64) error {
	d.cache.Apply(d.tokens.Apply(batch), revision, d.follower.Epoch())
	return nil
}

// Run serves until ctx is done.
func (d *Daemon) Run(ctx context.Context) error {
	d.log.Info("kubeapi listens", "addr", d.listener.Addr().String())
	defer context.AfterFunc(ctx, d.server.EndWatches)()
	err := app.RunTasks(ctx,
		app.Task{Name: "http", Run: func(ctx context.Context) error { return d.api.Serve(ctx, d.listener, d.server) }},
		app.Task{Name: "follower", Run: d.follower.Run},
		d.renewal,
	)
	return errors.Join(err, d.close())
}

func (d *Daemon) close() error {
	if d.nats != nil {
		d.nats.Close()
	}
	if d.registry == nil {
		return nil
	}
	return d.registry.Close()
}

// Addr returns the address of the API.
func (d *Daemon) Addr() net.Addr { return d.listener.Addr() }

package registrar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registrarv1 "portolan.dev/api/registrar/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/daemon"
	"portolan.dev/services/events"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"

	"portolan.dev/registrar/internal/objects"
	"portolan.dev/registrar/internal/reconcile"
	"portolan.dev/registrar/internal/view"
	"portolan.dev/registrar/source"
)

// Daemon registers the containers and units of a node. Make it with New, then call Run once.
type Daemon struct {
	cfg  Config
	host app.Host
	log  *slog.Logger
	node string
	id   identity.ID // without TLS: the identity that a certificate would have

	registry *grpc.ClientConn
	nats     app.Bus
	server   *rpc.Server
	listener net.Listener

	view       *view.View
	follower   *changes.Follower
	events     *events.Recorder
	sources    []source.Source
	reconciler *reconcile.Reconciler
	folder     *folder // nil: no folder is configured
}

// New builds the daemon and listens for its API.
func New(ctx context.Context, cfg Config, host app.Host) (*Daemon, error) {
	return NewWith(ctx, cfg, host)
}

// NewWith is New with additional sources, for programs that implement a source.
func NewWith(_ context.Context, cfg Config, host app.Host, more ...source.Source) (*Daemon, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !cfg.Docker && !cfg.Systemd && cfg.Dir == "" && len(more) == 0 {
		return nil, fmt.Errorf("%w: there is nothing to register from: give docker, systemd or dir", config.ErrInvalid)
	}
	node, err := daemon.NodeName(cfg.NodeName, host.Identity)
	if err != nil {
		return nil, err
	}
	d := &Daemon{cfg: cfg, host: host, log: host.Log.With("node", node), node: node, view: view.New(host.Guard), id: identity.ID{Role: identity.Registrar, Name: node}}
	if host.Identity != nil {
		d.id = host.Identity.ID()
	}
	d.sources = append(d.newSources(), more...)
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *Daemon) open() (err error) {
	if d.registry, err = d.host.Network.Dial(d.cfg.Registry, d.host.Identity.DialOption(identity.Registry)); err != nil {
		return err
	}
	if d.nats, err = d.host.NATS("registrar-" + d.node); err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	d.events = events.NewRecorder("registrar", d.node, registryv1.NewEventServiceClient(d.registry), d.log)
	d.host.Guard.ReportTo(func(o guard.Object, reason, message string) {
		d.events.Warn(events.Reference(o), cmp.Or(d.id.Namespace, o.Namespace, object.DefaultNamespace), reason, message)
	})
	d.reconciler = d.newReconciler()
	if d.cfg.Dir != "" {
		if d.folder, err = openFolder(&d.cfg, d.host.Network, d.log, d.host.Metrics, func(err error) { d.host.Health.Warn("dir", err) }); err != nil {
			return err
		}
	}
	if d.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: d.registry, NATS: d.nats, Prefix: d.cfg.NATSPrefix, Kinds: view.Kinds(), Node: d.node, Keep: view.Keep(d.id.Path()), Trim: view.Trim,
		Guard: d.host.Guard, Log: d.log, Metrics: d.host.Metrics, Health: d.host.Health, Tracer: d.host.Tracer, Revocations: d.host.Identity.DenyList(), Apply: d.reconciler.Apply,
	}); err != nil {
		return err
	}
	d.server = daemon.NewServer(d.host, access.Methods())
	registrarv1.RegisterRegistrarServiceServer(d.server, &api{daemon: d})
	d.listener, err = d.cfg.Listen(d.host.Network)
	return err
}

func (d *Daemon) newReconciler() *reconcile.Reconciler {
	var names []string
	for _, one := range d.sources {
		names = append(names, one.Name())
	}
	return reconcile.New(reconcile.Config{
		Objects:        objects.Builder{Node: d.node, NodeAddresses: d.cfg.NodeAddresses, Owner: d.id.Path(), Namespace: cmp.Or(d.id.Namespace, d.cfg.Namespace)},
		Bound:          d.id.Namespace,
		CreateServices: d.cfg.CreateServices, Sources: names, Registry: d.registry, View: d.view, Guard: d.host.Guard, Warn: d.warn, Log: d.log, Metrics: d.host.Metrics,
	})
}

// warn writes a line of the log and an Event about a service, or about the node if the name is empty. A
// registrar that is bound to a namespace can write Events in this namespace only.
func (d *Daemon) warn(service object.Name, reason, message string) {
	d.log.Warn("not registered as wanted", "reason", reason, "message", message)
	about := &corev1.ObjectReference{Kind: "Node", ApiVersion: "v1", Name: d.node}
	if service.Name != "" {
		about = &corev1.ObjectReference{Kind: "Service", ApiVersion: "v1", Namespace: service.Namespace, Name: service.Name}
	}
	d.events.Warn(about, cmp.Or(d.id.Namespace, service.Namespace, object.DefaultNamespace), reason, message)
}

// Run registers workloads until ctx is done. Their pods stay, because the containers and units go on.
func (d *Daemon) Run(ctx context.Context) error {
	d.log.Info("registrar runs", "addr", d.listener.Addr().String(), "identity", d.id.Path())
	tasks := []app.Task{
		{Name: "grpc", Run: func(ctx context.Context) error { return d.server.Serve(ctx, d.listener) }},
		{Name: "follower", Run: d.follower.Run},
		{Name: "events", Run: d.events.Run},
		{Name: "reconcile", Run: d.reconciler.Run},
		daemon.Renewal(d.host, daemon.RenewBy(d.registry)),
	}
	for _, one := range d.sources {
		tasks = append(tasks, app.Task{Name: one.Name(), Run: func(ctx context.Context) error {
			return one.Run(ctx, func(report source.Report) { d.report(one.Name(), report) })
		}})
	}
	return errors.Join(app.RunTasks(ctx, append(tasks, d.folder.tasks()...)...), d.close())
}

// report passes a report to the reconciler. Its error becomes a warning of the daemon's health.
func (d *Daemon) report(from string, report source.Report) {
	d.host.Health.Warn(from, report.Err)
	d.reconciler.Report(from, report)
}

func (d *Daemon) close() error {
	if d.nats != nil {
		d.nats.Close()
	}
	if d.listener != nil {
		d.listener.Close() //nolint:errcheck // a server that has run has closed it
	}
	errs := []error{d.folder.close()}
	if d.registry != nil {
		errs = append(errs, d.registry.Close())
	}
	return errors.Join(errs...)
}

// Addr returns the address of the gRPC API.
func (d *Daemon) Addr() net.Addr { return d.listener.Addr() }

package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/changelog"
	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/allocator"
	"portolan.dev/registry/internal/api"
	"portolan.dev/registry/internal/gc"
	"portolan.dev/registry/internal/offers"
	"portolan.dev/registry/internal/quota"
	"portolan.dev/registry/internal/renewal"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/internal/watch"
	"portolan.dev/registry/store"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/spec"
)

// Daemon is the registry. Make it with New, then call Run once.
type Daemon struct {
	config Config
	host   app.Host
	log    *slog.Logger
	open   OpenFunc

	store         store.Store
	indexes       *rules.Indexes
	offers        *offers.Catalog // of lbctl
	view          *view.View
	hub           *watch.Hub
	allocator     *allocator.Client
	writer        *admission.Writer
	collector     *gc.Collector
	reaper        *gc.Reaper
	quotas        *quota.Ledger
	agents        *api.Agents
	relay         *changes.Relay
	verifier      *changes.Verifier // of changes that followers got from the relay's stream
	server        *rpc.Server
	listener      net.Listener
	renewal       app.Task // renews the certificate
	allocatorConn *grpc.ClientConn
	nats          app.Bus
}

// New opens the store, waiting until it is available, reads all objects and listens. It needs
// neither the allocator nor NATS. The store is the embedded one; package program has Postgres too.
func New(ctx context.Context, cfg Config, host app.Host) (*Daemon, error) {
	return NewOn(ctx, cfg, host, OpenEmbedded)
}

// NewOn is New with a store that the given function opens. NewOn calls the function again while it
// returns [store.ErrUnavailable].
func NewOn(ctx context.Context, cfg Config, host app.Host, open OpenFunc) (*Daemon, error) {
	if err := cfg.ReadStoreFile(); err != nil {
		return nil, fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	d := &Daemon{config: cfg, host: host, log: host.Log, open: open}
	for _, build := range []func(context.Context) error{d.openView, d.openWriter, d.connectNATS, d.openServer} {
		if err := build(ctx); err != nil {
			return nil, errors.Join(err, d.close())
		}
	}
	return d, nil
}

// openView opens the store and builds everything that reads from it: the indexes, the collector,
// the view and the watch hub.
func (d *Daemon) openView(ctx context.Context) (err error) {
	d.quotas = quota.NewLedger(d.config.NamespaceQuotas, quota.OwnerLimits{Pods: d.config.MaxPodsPerWorkload, RegistrarPods: d.config.MaxPodsPerRegistrar, Services: d.config.MaxServicesPerRegistrar}, d.host.Metrics)
	if d.store, err = waitForStore(ctx, d.config, d.host, d.open, d.quotas.Usage); err != nil {
		return err
	}
	d.indexes = rules.NewIndexes(d.config.ServiceCIDR)
	d.offers = offers.NewCatalog()
	d.collector = gc.NewCollector(d.indexes, d.log)
	d.reaper = gc.NewReaper(gc.ReaperConfig{
		Store: d.store, Log: d.log, Metrics: d.host.Metrics, Every: d.config.ReapInterval,
		EventTTL:  d.config.EventTTL,
		Events:    gc.EventLimits{Number: d.config.MaxEvents, PerWriter: d.config.MaxEventsPerWriter, Bytes: d.config.MaxEventBytes << 20},
		Retention: uint64(d.config.LogRetention), LogBytes: d.config.LogBytes << 20,
	})
	d.view, err = view.New(ctx, view.Config{
		Store: d.store, Log: d.log, Metrics: d.host.Metrics, Health: d.host.Health, Indexes: d.indexes.List(),
		Publish: func(state *view.State, changes []*view.Change) {
			d.allocator.ObserveLog(state.Epoch())
			d.denyChanged(changes)
			d.quotas.Observe(state, changes)
			d.offers.Observe(changes)
			d.reaper.Observe(changes)
			d.hub.Publish(state, changes)
			d.collector.Observe(state, changes)
		},
		Reset: func(state *view.State) {
			d.allocator.ObserveLog(state.Epoch())
			d.denyAll(state)
			d.quotas.Reset(state)
			d.offers.Forget()
			d.reaper.Reset()
			d.hub.Reset(state)
		},
	})
	if err != nil {
		return err
	}
	d.denyAll(d.view.State())
	d.quotas.Reset(d.view.State())
	d.hub = watch.NewHub(d.view.State(), watch.Limits{Changes: d.config.WatchBuffer, Bytes: d.config.WatchMemory << 20})
	return nil
}

// openWriter connects to the allocator and builds the writer.
func (d *Daemon) openWriter(context.Context) (err error) {
	if d.allocatorConn, err = d.host.Network.Dial(d.config.Allocator, d.host.Identity.DialOption(identity.Allocator)); err != nil {
		return err
	}
	d.allocator = allocator.NewClient(allocatorv1.NewAllocatorServiceClient(d.allocatorConn), d.log, d.host.Metrics)
	d.allocator.KeepReserve(admission.ReserveLeases{Store: d.store}, d.host.Health, d.host.Metrics)
	d.writer = admission.New(admission.Config{
		Store: d.store, View: d.view, Indexes: d.indexes, Offers: d.offers, Allocator: d.allocator, Quotas: d.quotas, Families: d.config.families(),
		Rules: spec.Rules{
			LoopbackEndpoints: d.config.LoopbackEndpoints, ContainerRanges: d.config.ContainerRanges, ServiceCIDRs: d.config.ServiceCIDR, PodCIDRs: d.config.PodCIDR, ExternalIPs: d.config.ExternalIPs,
			NodeAddresses: d.config.NodeAddresses,
		},
		RevocationTTL: d.config.RevocationTTL, RevokeDeleted: d.host.Identity != nil,
	})
	d.collector.Use(d.view, d.writer)
	d.reaper.Use(d.view, d.writer)
	return nil
}

// connectNATS connects to NATS, which carries the change stream and the heartbeats of node agents.
func (d *Daemon) connectNATS(context.Context) (err error) {
	if d.nats, err = d.host.NATS("relay"); err != nil {
		return err
	}
	if err := changes.CheckServer(d.nats); err != nil {
		return fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	d.agents = api.NewAgents(d.view, d.config.HeartbeatTimeout)
	log := changelog.Log{Store: d.store}
	d.verifier = changes.NewVerifier(log)
	d.relay, err = changes.NewRelay(changes.RelayConfig{
		NATS: d.nats, Log: log, Verifier: d.verifier, Prefix: d.config.NATSPrefix, Replicas: d.config.StreamReplicas,
		MaxMsgs: d.config.LogRetention, MaxBytes: d.config.LogBytes << 20, Logger: d.log, Metrics: d.host.Metrics,
		Health: d.host.Health, Tracer: d.host.Tracer,
	})
	return err
}

func (d *Daemon) openServer(context.Context) (err error) {
	d.server = daemon.NewServer(d.host, access.Methods(), d.config.Streams.Limit, func(o *rpc.ServerOptions) {
		o.MaxRequest, o.Extra = api.MaxRequest, api.Interceptors()
	})
	objects := &api.Objects{
		View: d.view, Writer: d.writer, Pages: api.NewPages(d.view, d.hub),
		Rates: quota.New(map[identity.Role]quota.Limits{
			identity.NodeAgent: {Writes: d.config.AgentWriteRate, Bytes: d.config.AgentWriteBytes << 10},
			identity.Edge:      {Writes: d.config.AgentWriteRate, Bytes: d.config.AgentWriteBytes << 10},
			identity.Workload:  {Writes: d.config.WorkloadWriteRate, Bytes: d.config.WorkloadWriteBytes << 10},
			identity.Registrar: {Writes: d.config.AgentWriteRate, Bytes: d.config.AgentWriteBytes << 10},
		}, d.host.Metrics),
		Streamer: &watch.Streamer{
			View: d.view, Hub: d.hub, Store: d.store, BookmarkEvery: cmp.Or(d.config.BookmarkInterval, 5*time.Second), Dropped: watch.NewDropped(d.host.Metrics),
		},
	}
	if err := objects.Register(d.server); err != nil {
		return err
	}
	registryv1.RegisterApplyServiceServer(d.server, &api.Apply{Writer: d.writer})
	registryv1.RegisterBulkServiceServer(d.server, api.NewBulk(d.writer, d.log, d.host.Metrics))
	registryv1.RegisterChangeServiceServer(d.server, &api.Changes{View: d.view, Store: d.store, Verifier: d.verifier})
	registryv1.RegisterAgentServiceServer(d.server, d.agents)
	registryv1.RegisterDiscoveryServiceServer(d.server, &api.Discovery{View: d.view, Settings: d.config.settings(), NodePorts: d.allocator.NodePorts})
	registryv1.RegisterBackupServiceServer(d.server, &api.Backup{View: d.view, Store: d.store, Version: obs.Version()})
	if err := d.openIssuer(); err != nil {
		return err
	}
	d.listener, err = d.config.Listen(d.host.Network)
	return err
}

// openIssuer serves renewals of certificates. The registry renews its own without a connection.
func (d *Daemon) openIssuer() error {
	issuer, err := renewal.Open(renewal.Config{
		Cert: d.config.IssuerCert, Key: d.config.IssuerKey, Lifetime: d.config.CertificateLifetime, PerHour: d.config.CertificateRenewals,
		Log: d.log, Metrics: d.host.Metrics,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	if d.host.Identity != nil && d.config.IssuerCert == "" {
		d.log.Warn("no issuer-cert: this registry renews no certificates, those of the daemons included")
	}
	registryv1.RegisterCertificateServiceServer(d.server, &api.Certificates{Issuer: issuer})
	d.renewal = daemon.Renewal(d.host, func(_ context.Context, request []byte) ([]byte, error) {
		return issuer.Renew(d.host.Identity.Certificate(), request)
	})
	return nil
}

// Addr returns the address at which the gRPC API listens.
func (d *Daemon) Addr() net.Addr { return d.listener.Addr() }

// Run serves until ctx is done.
func (d *Daemon) Run(ctx context.Context) error {
	d.log.Info("registry listens", "addr", d.listener.Addr().String(), "revision", d.view.State().Revision(), "objects", d.view.State().Len())
	stop, err := changes.SubscribeHeartbeats(d.nats, d.config.NATSPrefix, d.agents.Record)
	if err != nil {
		return errors.Join(fmt.Errorf("heartbeats: %w", err), d.close())
	}
	// The tasks that calls depend on run until the last call is answered.
	background, served := context.WithCancel(context.WithoutCancel(ctx))
	behind := func(name string, run func(context.Context) error) app.Task {
		return app.Task{Name: name, Run: func(context.Context) error { return run(background) }}
	}
	err = app.RunTasks(ctx,
		app.Task{Name: "grpc", Run: func(ctx context.Context) error {
			defer served()
			return d.server.Serve(ctx, d.listener)
		}},
		d.renewal,
		behind("view", d.view.Run),
		behind("relay", d.relay.Run),
		behind("allocations", d.allocator.Run),
		behind("collector", d.collector.Run),
		behind("reaper", d.reaper.Run),
	)
	return errors.Join(err, stop(), d.close())
}

// close closes everything that New opened. The store comes last because the other parts still write
// to it.
func (d *Daemon) close() error {
	var errs []error
	if d.nats != nil {
		d.nats.Close()
	}
	if d.allocator != nil {
		d.allocator.Close()
	}
	if d.allocatorConn != nil {
		errs = append(errs, d.allocatorConn.Close())
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	return errors.Join(errs...)
}

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/healthcheck"
	"portolan.dev/nodeagent/internal/addresses"
	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/nodeagent/internal/nodestatus"
	"portolan.dev/nodeagent/internal/proxy"
	"portolan.dev/nodeagent/internal/proxymode"
	"portolan.dev/nodeagent/internal/traffic"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/nodeagent/probe"
	"portolan.dev/nodeagent/view"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/viewfile"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/tracing"
)

const (
	// surroundingsEvery is the time between two checks for changes without notifications.
	surroundingsEvery = 10 * time.Second
	auditEvery        = time.Minute
)

// programmedCheck is the health check that fails before the first sync.
const programmedCheck = "programmed"

// Agent is the daemon of a node.
type Agent struct {
	cfg  Config
	name string // of the node
	host app.Host
	log  *slog.Logger

	registry *grpc.ClientConn
	nats     app.Bus
	lis      net.Listener
	healthz  net.Listener // nil: none

	view     *view.View
	follower *changes.Follower
	plane    dataplane.Plane
	events   *events.Recorder
	syncer   *proxy.Syncer
	prober   *probe.Prober
	checks   *healthcheck.Server
	node     *nodestatus.Registrar
	health   *healthcheck.NodeServer

	machine     machine.Machine
	addressesMu sync.Mutex // serializes refreshAddresses, so that the last call stores the newest addresses
	// addresses are the node's addresses by role. They are read before the first task starts.
	addresses   atomic.Pointer[addresses.Roles]
	fromDisk    time.Time // when the loaded view was current; zero: no view was loaded
	fallback    string    // why the configured mode is not used; empty: it is used
	diskRefused string    // why the view on disk was not used; empty: it was used, or there was none

	draining   atomic.Bool
	auditPause time.Duration // time between two audits; auditEvery except in tests
	changed    chan struct{} // receives a token when the view has changed
}

// New builds an agent of this process's machine. The agent listens from here on, and forwards once
// it runs.
func New(ctx context.Context, cfg Config, host app.Host) (*Agent, error) {
	return NewOn(ctx, machine.Linux{}, cfg, host)
}

// NewOn builds an agent of any machine, see New.
func NewOn(_ context.Context, m machine.Machine, cfg Config, host app.Host) (*Agent, error) {
	a, err := newAgent(m, cfg, host)
	if err != nil {
		return nil, err
	}
	if err := a.open(a.connect, a.openPlane, a.assemble); err != nil {
		return nil, err
	}
	return a, nil
}

// newAgent returns an agent without connections, data plane and parts.
func newAgent(m machine.Machine, cfg Config, host app.Host) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	name, err := nodeName(&cfg, host.Identity)
	if err != nil {
		return nil, err
	}
	host.Health.Set(programmedCheck, errors.New("nothing programmed yet"))
	return &Agent{
		cfg: cfg, name: name, host: host, log: host.Log.With("node", name), changed: make(chan struct{}, 1), machine: m, auditPause: auditEvery,
	}, nil
}

// open runs the steps that build an agent. If one fails, it releases what the others have opened.
func (a *Agent) open(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			a.close()
			return err
		}
	}
	return nil
}

// nodeName returns the name of the agent's node. If there is a certificate, its name is the only
// valid one.
func nodeName(cfg *Config, source *identity.Source) (string, error) {
	if source != nil {
		certified := source.ID().Name
		if cfg.NodeName != "" && cfg.NodeName != certified {
			return "", fmt.Errorf("%w: node-name is %s and the certificate is %s: leave out node-name, or make a certificate by portolan certs issue nodeagent/%s",
				config.ErrInvalid, cfg.NodeName, source.ID(), cfg.NodeName)
		}
		return certified, nil
	}
	if cfg.NodeName != "" {
		return cfg.NodeName, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of the node: %w", err)
	}
	return name, nil
}

func (a *Agent) connect() error {
	var err error
	if a.registry, err = a.host.Network.Dial(a.cfg.Registry, a.host.Identity.DialOption(identity.Registry)); err != nil {
		return err
	}
	if a.nats, err = a.host.NATS("nodeagent-" + a.name); err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	if a.lis, err = a.cfg.Listen(a.host.Network); err != nil || a.cfg.HealthzAddr == "" {
		return err
	}
	if a.healthz, err = net.Listen("tcp", a.cfg.HealthzAddr); err != nil {
		return daemon.ListenError("healthz-addr", err)
	}
	return nil
}

// openPlane opens the data plane of the configured mode, or of the next best one.
func (a *Agent) openPlane() (err error) {
	a.plane, a.fallback, err = proxymode.Open(a.cfg.proxyMode(a.machine, a.log, a.host.Metrics))
	return err
}

// assemble builds the parts of the agent around its data plane.
func (a *Agent) assemble() error {
	a.view = view.New(a.name)
	a.events = events.NewRecorder(a.name, registryv1.NewEventServiceClient(a.registry), a.log)
	if a.fallback != "" {
		a.events.WarnNode(events.ProxyModeFallback, a.fallback)
	}
	traffic.Register(a.host.Metrics, a.plane, a.cfg.TrafficMetrics, a.log)
	a.checks = healthcheck.New(healthcheck.Options{
		Healthy: func() bool { return a.syncer.Healthy() },
		Report: func(service plan.ServiceName, port uint16, err error) {
			a.syncer.ReportHealthCheckPort(service, port, err)
		},
	})
	a.syncer = proxy.New(proxy.Options{
		View: a.view, Plane: a.plane, Listens: a.plane.Name() == proxymode.Userspace,
		Checks: a.checks, Events: a.events, Metrics: a.host.Metrics, Log: a.log,
		Programmed: func() { a.host.Health.Set(programmedCheck, nil) },
	})
	a.prober = probe.New(probe.Options{
		Log: a.log, Metrics: a.host.Metrics,
		Write: probe.RegistryWriter(registryv1.NewPodServiceClient(a.registry)),
	})
	a.node = nodestatus.NewRegistrar(nodestatus.RegistrarOptions{
		Name: a.name, Labels: a.cfg.labels(), ProxyMode: a.plane.Name(),
		AdvertiseAddr: a.cfg.AdvertiseAddr, Listening: a.lis.Addr(), Connected: a.nats.IsConnected,
		Client: registryv1.NewNodeServiceClient(a.registry), Log: a.log,
	})
	a.health = healthcheck.NewNodeServer(healthcheck.NodeOptions{
		ProxyMode: a.plane.Name(), Metrics: a.host.Metrics,
		Healthy: a.syncer.Healthy, Updated: a.syncer.LastSync, Draining: a.draining.Load, Node: a.view.Self,
	})
	if err := a.follow(); err != nil {
		return err
	}
	a.registerMetrics()
	return nil
}

// follow builds the follower of the registry's changes.
func (a *Agent) follow() (err error) {
	a.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: a.registry, NATS: a.nats, Prefix: a.cfg.NATSPrefix, Kinds: view.Kinds,
		Keep: a.view.Accepts, Trim: a.view.Trim, Log: a.log, Metrics: a.host.Metrics, Health: a.host.Health, Tracer: a.host.Tracer, Apply: a.apply,
	})
	return err
}

// Run forwards until ctx is done.
func (a *Agent) Run(ctx context.Context) error {
	defer a.close()
	if err := a.refreshAddresses(); err != nil {
		return err
	}
	a.reportSettings()
	a.loadView()
	tasks := []app.Task{
		{Name: "grpc", Run: a.serve},
		{Name: "sync", Run: a.syncer.Run},
		{Name: "changes", Run: a.follower.Run},
		{Name: "probes", Run: a.prober.Run},
		{Name: "health checks", Run: a.checks.Run},
		{Name: "events", Run: a.events.Run},
		{Name: "node", Run: a.node.Run},
		{Name: "heartbeat", Run: a.heartbeats().Run},
		{Name: "surroundings", Run: func(ctx context.Context) error { return a.every(ctx, surroundingsEvery, a.checkSurroundings) }},
		{Name: "addresses", Run: a.watchAddresses},
		{Name: "audit", Run: func(ctx context.Context) error { return a.every(ctx, a.auditPause, a.auditInBackground) }},
	}
	if path := a.viewPath(); path != "" {
		loaded := a.view.Revision()
		tasks = append(tasks, app.Task{Name: "view", Run: func(ctx context.Context) error {
			return viewfile.Keep(ctx, viewfile.Keeping{
				Path: path, Revision: a.view.Revision, Loaded: loaded, Save: a.view.Save, Changed: a.changed, Every: saveEvery, Current: a.current, Report: a.reportSave,
			})
		}})
	}
	if a.healthz != nil {
		tasks = append(tasks, app.Task{Name: "healthz", Run: func(ctx context.Context) error { return a.health.Serve(ctx, a.healthz) }})
	}
	a.log.Info("running", "addr", a.lis.Addr().String(), "proxy_mode", a.plane.Name())
	return app.RunTasks(ctx, tasks...)
}

// close releases the resources that New has opened so far.
func (a *Agent) close() {
	if a.plane != nil {
		if err := a.plane.Close(); err != nil {
			a.log.Warn("data plane", "err", err)
		}
	}
	if a.lis != nil {
		a.lis.Close()
	}
	if a.healthz != nil {
		a.healthz.Close()
	}
	if a.nats != nil {
		a.nats.Close()
	}
	if a.registry != nil {
		a.registry.Close()
	}
}

func (a *Agent) serve(ctx context.Context) error {
	host := a.host
	host.Log = a.log
	srv := daemon.NewServer(host, access.Methods())
	nodeagentv1.RegisterNodeAgentServiceServer(srv, &api{agent: a})
	return srv.Serve(ctx, a.lis)
}

// apply applies a batch of the follower's changes.
func (a *Agent) apply(ctx context.Context, batch []changes.Change, revision uint64) error {
	_, span := tracing.Start(ctx, "view")
	changed := a.view.Apply(batch, revision)
	span.End(nil)
	if a.syncer.SetLive() {
		a.host.Health.Set(viewCheck, nil)
	}
	if changed.Node {
		a.refreshFacts()
		a.node.Wake()
	}
	a.syncer.Changed(tracing.Of(ctx))
	if changed.Pods {
		a.prober.Set(a.view.Pods())
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
	return nil
}

func (a *Agent) auditInBackground(ctx context.Context) {
	a.syncer.Audit(ctx) //nolint:errcheck // it is in the status, and there was an event
}

// every calls fn at intervals of d until ctx is done.
func (a *Agent) every(ctx context.Context, d time.Duration, fn func(context.Context)) error {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			fn(ctx)
		}
	}
}

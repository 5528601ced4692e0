package nodeagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/healthcheck"
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
	"portolan.dev/services/object"
)

const (
	viewFile   = "view.pb"
	saveEvery  = 5 * time.Second
	lookEvery  = 10 * time.Second
	auditEvery = time.Minute
)

// Names of health checks. The agent is not ready before its first sync, and not while it uses the
// view from its disk.
const (
	programmedCheck = "programmed"
	viewCheck       = "view"
)

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
	events   *recorder
	syncer   *syncer
	prober   *probe.Prober
	checks   *healthcheck.Server
	node     *registrar
	metrics  *metrics

	machine     Machine
	addressesMu sync.Mutex // serializes refreshAddresses, so that the last call stores the newest addresses
	fromDisk    time.Time  // when the loaded view was current; zero: no view was loaded
	fallback    string     // why the configured mode is not used; empty: it is used
	diskRefused string     // why the view on disk was not used; empty: it was used, or there was none

	draining   atomic.Bool
	auditPause time.Duration // time between two audits; auditEvery except in tests
	lastAudit  atomic.Int64  // in ns since the epoch; 0: never
	changed    chan struct{} // receives a token when the view has changed
}

// New builds an agent of this process's machine. The agent listens from here on, and forwards once
// it runs.
func New(ctx context.Context, cfg Config, host app.Host) (*Agent, error) {
	return NewOn(ctx, Linux{}, cfg, host)
}

// NewOn builds an agent of any machine, see New.
func NewOn(_ context.Context, machine Machine, cfg Config, host app.Host) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	name, err := nodeName(&cfg, host.Identity)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		cfg: cfg, name: name, host: host, log: host.Log.With("node", name), changed: make(chan struct{}, 1), machine: machine, auditPause: auditEvery,
	}
	if err := a.connect(); err != nil {
		a.close()
		return nil, err
	}
	if err := a.build(); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
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

func (a *Agent) build() error {
	a.host.Health.Set(programmedCheck, errors.New("nothing programmed yet"))
	a.view = view.New(a.name)
	a.events = newRecorder(a.name, registryv1.NewEventServiceClient(a.registry), a.log)
	var err error
	if a.plane, err = a.openPlane(); err != nil {
		return err
	}
	a.metrics = newMetrics(a.host.Metrics)
	a.metrics.mode.WithLabelValues(a.plane.Name()).Set(1)
	watchTraffic(a.host.Metrics, a.plane, a.cfg.TrafficMetrics, a.log)
	watchDrops(a.host.Metrics, a.plane, a.cfg.TrafficMetrics, a.log)
	a.syncer = newSyncer(a.view, a.plane, a.events, a.metrics, a.log,
		func() { a.host.Health.Set(programmedCheck, nil) })
	a.checks = healthcheck.New(healthcheck.Options{Healthy: a.syncer.healthy, Report: a.syncer.checkReported})
	a.syncer.checks = a.checks
	a.prober = probe.New(probe.Options{
		Log: a.log, Metrics: a.host.Metrics,
		Write: probe.RegistryWriter(registryv1.NewPodServiceClient(a.registry)),
	})
	a.node = newRegistrar(a)
	a.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: a.registry, NATS: a.nats, Prefix: a.cfg.NATSPrefix, Kinds: view.Kinds,
		Keep: a.view.Keeps, Trim: a.view.Trim, Log: a.log, Metrics: a.host.Metrics, Health: a.host.Health, Tracer: a.host.Tracer, Apply: a.apply,
	})
	if err != nil {
		return err
	}
	a.metrics.ages(a.host.Metrics, a.syncer.queueAge, a.viewAge)
	return nil
}

// Run forwards until ctx is done.
func (a *Agent) Run(ctx context.Context) error {
	defer a.close()
	if err := a.refreshAddresses(); err != nil {
		return err
	}
	a.tellSettings()
	a.loadView()
	tasks := []app.Task{
		{Name: "grpc", Run: a.serve},
		{Name: "sync", Run: a.syncer.run},
		{Name: "changes", Run: a.follower.Run},
		{Name: "probes", Run: a.prober.Run},
		{Name: "health checks", Run: a.checks.Run},
		{Name: "events", Run: a.events.run},
		{Name: "node", Run: a.node.run},
		{Name: "heartbeat", Run: a.beat},
		{Name: "surroundings", Run: func(ctx context.Context) error { return a.every(ctx, lookEvery, a.lookAround) }},
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
		tasks = append(tasks, app.Task{Name: "healthz", Run: func(ctx context.Context) error { return a.serveHealth(ctx, a.healthz) }})
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
	touched := a.view.Apply(batch, revision)
	span.End(nil)
	if !a.syncer.live.Swap(true) {
		a.host.Health.Set(viewCheck, nil)
	}
	if touched.Node {
		a.refreshFacts()
		a.node.poke()
	}
	a.syncer.changed(tracing.Of(ctx))
	if touched.Pods {
		a.prober.Set(a.view.Pods())
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
	return nil
}

func (a *Agent) viewPath() string {
	if a.cfg.DataDir == "" {
		return ""
	}
	return filepath.Join(a.cfg.DataDir, viewFile)
}

// loadView loads the view from disk, so that the node forwards even if the control plane is
// unavailable. It starts no probes, because their results could not be reported.
func (a *Agent) loadView() {
	path := a.viewPath()
	if path == "" {
		return
	}
	if err := os.MkdirAll(a.cfg.DataDir, 0o750); err != nil {
		a.log.Warn("the view will not be kept", "err", err)
		return
	}
	at, err := a.view.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		a.diskRefused = err.Error()
		a.events.warnNode(reasonViewRefused, fmt.Sprintf("the view on disk is not used, and nothing is forwarded before the registry answers: %v", err))
		return
	}
	a.fromDisk = at
	a.log.Info("starting from the last view", "revision", a.view.Revision(), "age", time.Since(at).Round(time.Second))
	a.host.Health.Set(viewCheck, fmt.Errorf("forwarding by the view on disk, which was current at %s: the registry has not answered yet", at.UTC().Format(time.RFC3339)))
	a.refreshFacts()
	a.syncer.changed(tracing.Span{})
}

// onDisk reports whether the agent uses the view from its disk.
func (a *Agent) onDisk() bool { return !a.fromDisk.IsZero() && !a.syncer.live.Load() }

// viewAge returns the time since the view was known to be current.
func (a *Agent) viewAge() time.Duration {
	if a.onDisk() {
		return time.Since(a.fromDisk)
	}
	return a.follower.Age()
}

// current reports whether the view is known to match the registry. Normally the view's age is below
// about two bookmark intervals.
func (a *Agent) current() bool { return a.follower.Synced() && a.follower.Age() < 2*saveEvery }

func (a *Agent) reportSave(err error) {
	if err != nil {
		a.log.Warn("the view was not kept", "err", err)
	}
}

// refreshAddresses reads the node's addresses again and passes them on.
func (a *Agent) refreshAddresses() error {
	a.addressesMu.Lock()
	defer a.addressesMu.Unlock()
	local, err := a.machine.Addresses()
	if err != nil {
		return err
	}
	addrs := a.cfg.assign(local)
	if len(addrs.node) == 0 {
		addrs.node = addrs.nodePorts // a machine without a network has loopback addresses only
	}
	a.node.setAddresses(addrs)
	a.checks.SetAddresses(addrs.nodePorts)
	a.refreshFacts()
	return nil
}

// refreshFacts passes the current facts to the syncer.
func (a *Agent) refreshFacts() {
	addrs := a.node.addresses()
	a.syncer.setFacts(a.cfg.facts(a.name, a.zone(), addrs), addrs.sources)
}

// zone returns the node's zone according to the registry, or to the configured labels.
func (a *Agent) zone() string {
	return cmp.Or(a.view.Self().GetMetadata().GetLabels()[object.LabelZone], a.cfg.labels()[object.LabelZone])
}

// lookAround checks for changes without notifications: changed addresses, programs that listen on
// node ports, and a Node that is still not ready.
func (a *Agent) lookAround(context.Context) {
	if self := a.view.Self(); self != nil && !ready(self) {
		a.node.poke()
	}
	a.lookAtAddresses()
	a.syncer.lookAtNodePorts(a.machine.Listeners())
}

func (a *Agent) lookAtAddresses() {
	a.syncer.nodeTrouble(troubleAddresses, a.refreshAddresses(), reasonAddressesUnknown)
}

// watchAddresses reads the node's addresses whenever the kernel reports a change. If the kernel
// does not report changes, lookAround finds them later.
func (a *Agent) watchAddresses(ctx context.Context) error {
	if err := a.machine.WatchAddresses(ctx, a.lookAtAddresses); err != nil {
		a.log.Info("changes of addresses are noticed late", "within", lookEvery, "err", err)
	}
	<-ctx.Done()
	return nil
}

func (a *Agent) auditInBackground(ctx context.Context) {
	a.audit(ctx) //nolint:errcheck // it is in the status, and there was an event
}

func (a *Agent) audit(ctx context.Context) ([]string, error) {
	found, err := a.syncer.audit(ctx)
	if err != nil {
		return nil, err
	}
	a.lastAudit.Store(time.Now().UnixNano())
	if len(found) > 0 {
		a.log.Warn("drift repaired", "differences", found)
	}
	return found, nil
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

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/internal/addresses"
	"portolan.dev/nodeagent/internal/announce"
	"portolan.dev/nodeagent/internal/bgp"
	"portolan.dev/nodeagent/internal/healthcheck"
	"portolan.dev/nodeagent/internal/localproxy"
	"portolan.dev/nodeagent/internal/nodestatus"
	"portolan.dev/nodeagent/internal/probe"
	"portolan.dev/nodeagent/internal/syncloop"
	"portolan.dev/nodeagent/internal/view"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/viewfile"
	"portolan.dev/services/daemon"
	eventlog "portolan.dev/services/events"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/kit/wake"
)

const (
	// surroundingsEvery is the time between two checks for changes without notifications.
	surroundingsEvery = 10 * time.Second
	auditEvery        = time.Minute
)

// programmedCheck is the health check that fails before the first sync.
const programmedCheck = "programmed"

// Daemon is the daemon of a node.
type Daemon struct {
	cfg  Config
	name string // of the node
	host app.Host
	log  *slog.Logger

	registry *grpc.ClientConn
	nats     app.Bus
	lbctl    []announce.Controller // none: the node does not announce
	lis      net.Listener
	healthz  net.Listener // nil: none

	plane    dataplane.Plane
	fallback string    // why the configured mode is not used; empty: it is used
	claim    io.Closer // nil: another agent runs on the machine
	left     error     // of removing the state of an earlier agent in another mode

	view       *view.View
	follower   *changes.Follower
	events     *eventlog.Recorder
	syncer     *syncloop.Syncer
	prober     *probe.Prober
	checks     *healthcheck.Server
	node       *nodestatus.Registration
	health     *healthcheck.NodeServer
	announcer  *announce.Announcer
	advertiser *bgp.Advertiser
	proxies    *localproxy.Proxies

	draining   atomic.Bool
	auditPause time.Duration // time between two audits; auditEvery except in tests

	machine     machine.Machine
	addressesMu sync.Mutex // serializes refreshAddresses, so that the last call stores the newest addresses
	// addresses are the node's addresses by role. They are read before the first task starts.
	addresses atomic.Pointer[addresses.Roles]

	home        *viewfile.Home // of the view on disk
	diskRefused string         // why the view on disk was not used; empty: it was used, or there was none
	viewChanged wake.Signal    // sent when the view has changed
}

// NewOn builds an agent of a machine. The agent listens from here on, and forwards once it runs.
// Package program has New, which builds an agent of this process's machine.
func NewOn(_ context.Context, m machine.Machine, cfg Config, host app.Host) (*Daemon, error) {
	d, err := newDaemon(m, cfg, host)
	if err != nil {
		return nil, err
	}
	if err := d.open(d.connect, d.openPlane, d.assemble); err != nil {
		return nil, err
	}
	return d, nil
}

// newDaemon returns an agent without connections, data plane and parts.
func newDaemon(m machine.Machine, cfg Config, host app.Host) (*Daemon, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	name, err := daemon.NodeName(cfg.NodeName, host.Identity)
	if err != nil {
		return nil, err
	}
	host.Health.Set(programmedCheck, errors.New("nothing programmed yet"))
	return &Daemon{
		cfg: cfg, name: name, host: host, log: host.Log.With("node", name), machine: m, auditPause: auditEvery, viewChanged: wake.New(),
		home: &viewfile.Home{Dir: cfg.DataDir, Use: "forwarding", Log: host.Log.With("node", name), Health: host.Health},
	}, nil
}

// open runs the steps that build an agent. If one fails, open releases the resources of the others.
func (d *Daemon) open(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			d.close()
			return err
		}
	}
	return nil
}

// connect opens the connections and the listeners.
func (d *Daemon) connect() error {
	var err error
	if d.registry, err = d.host.Network.Dial(d.cfg.Registry, d.host.Identity.DialOption(identity.Registry)); err != nil {
		return err
	}
	if err := d.dialLBCtl(); err != nil {
		return err
	}
	if d.nats, err = d.host.NATS("nodeagent-" + d.name); err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	if d.lis, err = d.cfg.Listen(d.host.Network); err != nil || d.cfg.HealthzAddr == "" {
		return err
	}
	if d.healthz, err = net.Listen("tcp", d.cfg.HealthzAddr); err != nil {
		return daemon.ListenError("healthz-addr", err)
	}
	return nil
}

// dialLBCtl opens a connection to each lbctl, because the announcer asks all of them which is the leader. A
// single connection to all addresses would reach only one of them.
func (d *Daemon) dialLBCtl() error {
	if len(d.cfg.AnnounceInterfaces) == 0 {
		return nil
	}
	for _, addr := range d.cfg.LBCtl {
		conn, err := d.host.Network.Dial(addr, d.host.Identity.DialOption(identity.LBCtl))
		if err != nil {
			return err
		}
		d.lbctl = append(d.lbctl, announce.Controller{Addr: addr, Conn: conn})
	}
	return nil
}

// Run forwards until ctx is done.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.close()
	if err := d.refreshAddresses(); err != nil {
		return err
	}
	d.reportSettings()
	d.loadView()
	d.proxies.Open()
	d.proxyChanged()
	tasks := []app.Task{
		{Name: "grpc", Run: d.serve},
		{Name: "sync", Run: d.syncer.Run},
		{Name: "changes", Run: d.follower.Run},
		{Name: "probes", Run: d.prober.Run},
		{Name: "health checks", Run: d.checks.Run},
		{Name: "events", Run: d.events.Run},
		{Name: "node", Run: d.node.Run},
		{Name: "heartbeat", Run: d.heartbeats().Run},
		{Name: "surroundings", Run: func(ctx context.Context) error { return d.every(ctx, surroundingsEvery, d.checkSurroundings) }},
		{Name: "addresses", Run: d.watchAddresses},
		{Name: "announcing", Run: d.announcer.Run},
		{Name: "bgp", Run: d.advertiser.Run},
		{Name: "proxies", Run: d.proxies.Run},
		{Name: "view", Run: func(ctx context.Context) error { return d.home.KeepView(ctx, d.follower, d.view, d.viewChanged) }},
		daemon.Renewal(d.host, daemon.RenewBy(d.registry)),
		{Name: "audit", Run: func(ctx context.Context) error { return d.every(ctx, d.auditPause, d.auditInBackground) }},
	}
	if d.healthz != nil {
		tasks = append(tasks, app.Task{Name: "healthz", Run: func(ctx context.Context) error { return d.health.Serve(ctx, d.healthz) }})
	}
	d.log.Info("running", "addr", d.lis.Addr().String(), "proxy_mode", d.plane.Name())
	return app.RunTasks(ctx, tasks...)
}

// close releases the resources that New has opened so far.
func (d *Daemon) close() {
	if d.plane != nil {
		if err := d.plane.Close(); err != nil {
			d.log.Warn("data plane", "err", err)
		}
	}
	if d.claim != nil {
		d.claim.Close()
	}
	if d.lis != nil {
		d.lis.Close()
	}
	if d.healthz != nil {
		d.healthz.Close()
	}
	if d.nats != nil {
		d.nats.Close()
	}
	for _, controller := range d.lbctl {
		controller.Conn.Close()
	}
	if d.registry != nil {
		d.registry.Close()
	}
}

func (d *Daemon) serve(ctx context.Context) error {
	host := d.host
	host.Log = d.log
	srv := daemon.NewServer(host, access.Methods(), func(o *rpc.ServerOptions) { o.MaxRequest = maxRequest })
	nodeagentv1.RegisterNodeAgentServiceServer(srv, &api{daemon: d})
	nodeagentv1.RegisterLocalProxyServiceServer(srv, d.proxies)
	return srv.Serve(ctx, d.lis)
}

// maxRequest limits the requests of the methods that need less than the others.
func maxRequest(method string) int {
	if method == nodeagentv1.LocalProxyService_Serve_FullMethodName {
		return localproxy.MaxMessage
	}
	return 0
}

// proxyChanged tells the announcer and the BGP advertiser that the addresses of a proxy on the node have changed.
func (d *Daemon) proxyChanged() {
	d.advertiser.Served(d.proxies.Advertised())
	d.announcer.Wake()
}

// apply applies a batch of the follower's changes.
func (d *Daemon) apply(ctx context.Context, batch []changes.Change, revision uint64) error {
	_, span := tracing.Start(ctx, "view")
	changed := d.view.Apply(batch, revision)
	span.End(nil)
	d.syncer.SetLive()
	d.home.Leave()
	if changed.Node {
		d.refreshFacts()
		d.node.Wake()
		d.advertiser.Wake()
	}
	if changed.Node || changed.Edge {
		d.proxies.Wake()
	}
	d.syncer.Changed(tracing.SpanFromContext(ctx))
	if changed.Pods {
		d.prober.Set(d.view.Pods())
	}
	d.viewChanged.Send()
	return nil
}

func (d *Daemon) auditInBackground(ctx context.Context) {
	d.syncer.Audit(ctx) //nolint:errcheck // it is in the status, and there was an event
}

// every calls fn at an interval until ctx is done.
func (d *Daemon) every(ctx context.Context, interval time.Duration, fn func(context.Context)) error {
	ticker := time.NewTicker(interval)
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

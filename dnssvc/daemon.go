package dnssvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"

	dnsv1 "portolan.dev/api/dns/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/viewfile"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/kit/wake"

	"portolan.dev/dnssvc/internal/forward"
	"portolan.dev/dnssvc/internal/server"
	"portolan.dev/dnssvc/internal/zone"
)

// Daemon is the name server. Make it with New, then call Run once.
type Daemon struct {
	cfg      Config
	log      *slog.Logger
	health   *health.Registry
	table    *zone.Table
	dns      *server.Server
	follower *changes.Follower
	grpc     *rpc.Server
	listener net.Listener
	registry *grpc.ClientConn
	renewal  app.Task // renews the certificate
	nats     app.Bus
	metrics  *metrics
	forward  *forward.Forwarder // nil if other names are refused
	notifier *server.Notifier
	keys     server.Keys      // keys of secondaries
	public   *identity.Public // certificate of -listen-tls-cert; nil without the flag

	syncedOnce sync.Once
	synced     chan struct{} // closed when the first snapshot has been taken over

	home         *viewfile.Home // of the view on disk
	loadedSerial uint64         // serial number of the loaded view
	dirty        wake.Signal    // sent when names have changed
}

// New listens for DNS and for the API. It needs neither the registry nor NATS: names appear once
// both answer.
func New(_ context.Context, cfg Config, host app.Host) (*Daemon, error) {
	d := &Daemon{cfg: cfg, log: host.Log, health: host.Health, synced: make(chan struct{}), dirty: wake.New()}
	d.home = &viewfile.Home{Dir: cfg.DataDir, Use: "answering", Log: host.Log, Health: host.Health}
	if err := d.open(host); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *Daemon) open(host app.Host) (err error) {
	names := d.cfg.zone()
	names.Guard = host.Guard
	if d.table, err = zone.New(names); err != nil {
		return err
	}
	d.loadView()
	d.loadedSerial = uint64(d.table.Snapshot().Serial)
	if err := d.readKeys(); err != nil {
		return fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	d.notifier = server.NewNotifier(d.table.Snapshot, d.cfg.Notify, d.keys, d.log)
	if len(d.cfg.Upstreams) > 0 {
		d.forward = forward.New(forward.Config{
			Upstreams: d.cfg.Upstreams, Allow: d.cfg.RecursionAllow, Entries: d.cfg.CacheEntries, Timeout: d.cfg.UpstreamTimeout,
			Stale: d.cfg.ServeStale, Log: d.log,
		})
		host.Metrics.MustRegister(d.forward)
	}
	d.dns = server.New(d.serverConfig())
	for _, addr := range d.cfg.Listen {
		if err := d.dns.Listen(addr); err != nil {
			return daemon.ListenError("listen", err)
		}
	}
	if err := d.listenTLS(host); err != nil {
		return err
	}
	if d.registry, err = host.Network.Dial(d.cfg.Registry, host.Identity.DialOption(identity.Registry)); err != nil {
		return err
	}
	d.renewal = daemon.Renewal(host, daemon.RenewBy(d.registry))
	if d.nats, err = host.NATS("changes"); err != nil {
		return err
	}
	if d.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: d.registry, NATS: d.nats, Prefix: d.cfg.NATSPrefix, Kinds: names.Kinds(),
		VersionsOnly: true, Guard: host.Guard, Log: d.log, Metrics: host.Metrics, Health: host.Health, Tracer: host.Tracer, Revocations: host.Identity.DenyList(), Apply: d.apply,
	}); err != nil {
		return err
	}
	d.metrics = newMetrics(host.Metrics, d)
	d.grpc = daemon.NewServer(host, access.Methods())
	dnsv1.RegisterDNSServiceServer(d.grpc, &api{daemon: d})
	d.listener, err = d.cfg.Common.Listen(host.Network)
	return err
}

// readKeys reads the keys of secondaries.
func (d *Daemon) readKeys() (err error) {
	if d.cfg.TransferKeys != "" {
		if d.keys, err = server.ReadKeys(d.cfg.TransferKeys); err != nil {
			return fmt.Errorf("transfer-keys: %w", err)
		}
	}
	for _, s := range d.cfg.Notify {
		if _, ok := d.keys[s.Key]; !ok && s.Key != "" {
			return fmt.Errorf("notify: %s: there is no such key in transfer-keys", s)
		}
	}
	return nil
}

func (d *Daemon) serverConfig() server.Config {
	cfg := server.Config{
		Names: d.table.Snapshot, Log: d.log, Keys: d.keys, Clients: d.cfg.Clients, MaxUDP: d.cfg.MaxUDP,
		MaxRecordsUDP: d.cfg.MaxRecordsUDP, MaxRecordsTCP: d.cfg.MaxRecordsTCP, IdleTimeout: d.cfg.IdleTimeout,
		MaxConns: d.cfg.MaxConns, MaxConnsPerClient: d.cfg.MaxConnsPerClient, MaxPending: d.cfg.MaxPending,
		Workers: d.cfg.Workers, LogQueries: d.cfg.LogQueries, OrdinaryOnly: !d.cfg.FastPath,
	}
	if d.forward != nil {
		cfg.Forward = d.forward
	}
	if len(d.cfg.TransferAllow)+len(d.keys) > 0 {
		cfg.Transfer = &server.Transfer{Allow: d.cfg.TransferAllow}
	}
	return cfg
}

// Addr returns the address of the gRPC API.
func (d *Daemon) Addr() net.Addr { return d.listener.Addr() }

// TLSAddrs returns the addresses of DNS over TLS.
func (d *Daemon) TLSAddrs() []string { return d.dns.TLSAddrs() }

// DNSAddrs returns the addresses of DNS by UDP and TCP.
func (d *Daemon) DNSAddrs() []string { return d.dns.Addrs() }

// memoryReturnDelay is the time after the first snapshot in which its objects become garbage. Only
// the names stay in use.
const memoryReturnDelay = time.Second

// returnMemory gives the memory in which the first snapshot was read back to the system. Otherwise it
// would be kept until the next garbage collection, which may be far off, because names make hardly any
// garbage.
func (d *Daemon) returnMemory(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.synced:
	}
	select {
	case <-ctx.Done():
	case <-time.After(memoryReturnDelay):
		debug.FreeOSMemory()
	}
	return nil
}

// lameDuckCheck is the health check that fails while the daemon is about to stop.
const lameDuckCheck = "stop"

// Run answers until ctx is done and for LameDuck longer, so that clients can see the daemon fail
// its readiness check before it stops.
func (d *Daemon) Run(ctx context.Context) error {
	d.log.Info("dnssvc listens", "addr", d.listener.Addr().String(), "dns", d.dns.Addrs(), "tls", d.dns.TLSAddrs())
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	err := app.RunTasks(ctx,
		app.Task{Name: "grpc", Run: func(ctx context.Context) error { return d.grpc.Serve(ctx, d.listener) }},
		app.Task{Name: "follower", Run: d.follower.Run},
		app.Task{Name: "dns", Run: func(context.Context) error { return d.dns.Run(serving) }},
		app.Task{Name: "certificate", Run: d.watchCertificate},
		d.renewal,
		app.Task{Name: "notify", Run: d.notifier.Run},
		app.Task{Name: "memory", Run: d.returnMemory},
		app.Task{Name: "disk", Run: d.boundDiskView},
		app.Task{Name: "view", Run: d.saveViews},
		app.Task{Name: "forward", Run: func(context.Context) error {
			if d.forward == nil {
				return nil
			}
			return d.forward.Run(serving)
		}},
		app.Task{Name: "stop", Run: func(ctx context.Context) error {
			<-ctx.Done()
			d.lameDuck()
			stop()
			return nil
		}},
	)
	return errors.Join(err, d.close())
}

// lameDuck fails the readiness check and waits for LameDuck, so that clients that watch it can turn
// to other servers.
func (d *Daemon) lameDuck() {
	d.health.Set(lameDuckCheck, errors.New("stopping"))
	if d.cfg.LameDuck > 0 {
		<-time.After(d.cfg.LameDuck)
	}
}

// apply puts a batch of the change stream into the table.
func (d *Daemon) apply(ctx context.Context, batch []changes.Change, revision uint64) error {
	start := time.Now()
	before := d.table.Snapshot().Serial
	list := make([]zone.Change, 0, len(batch))
	for _, c := range batch {
		if c.New == nil {
			list = append(list, zone.Change{Object: c.Old, Deleted: true})
		} else {
			list = append(list, zone.Change{Object: c.New})
		}
	}
	_, span := tracing.Start(ctx, "names")
	err := d.table.Apply(list, revision)
	if span.End(err); err != nil {
		return err
	}
	d.syncedOnce.Do(func() { close(d.synced) })
	if d.home.OnDisk() {
		d.home.Leave()
	}
	if len(batch) > 0 {
		d.metrics.apply.Observe(time.Since(start).Seconds())
	}
	if d.table.Snapshot().Serial != before {
		d.notifier.Changed()
		d.dirty.Send()
	}
	return nil
}

func (d *Daemon) close() error {
	d.health.Set(lameDuckCheck, errors.New("stopped"))
	if d.nats != nil {
		d.nats.Close()
	}
	if d.dns != nil {
		d.dns.Close()
	}
	if d.listener != nil {
		d.listener.Close()
	}
	if d.registry != nil {
		return d.registry.Close()
	}
	return nil
}

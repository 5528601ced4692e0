package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/tracing"
)

// configuration is a pointer to a struct that embeds Common.
type configuration[C any] interface {
	*C
	CommonConfig() *Common
}

// Main is the main function of a daemon. It reads the configuration, makes the host, serves metrics
// and health over HTTP, and runs the daemon that build returns until a signal arrives. It returns
// the exit code. If the first argument is "ready", Main instead asks the running daemon with this
// configuration whether it is ready.
func Main[C any, D app.Daemon, P configuration[C]](
	name string, build func(ctx context.Context, cfg C, host app.Host) (D, error),
) int {
	return app.Main(name, func(ctx context.Context, args []string) error {
		var cfg C
		ask := len(args) > 0 && args[0] == "ready"
		if ask {
			args = args[1:]
		}
		if err := config.Load(name, P(&cfg), args, os.LookupEnv, os.Stdout); err != nil {
			return err
		}
		placeRenewed(P(&cfg))
		if ask {
			return askReady(ctx, name, *P(&cfg).CommonConfig())
		}
		return run(ctx, name, *P(&cfg).CommonConfig(), func(ctx context.Context, host app.Host) (app.Daemon, error) {
			return build(ctx, cfg, host)
		})
	})
}

// keeper is a configuration with a folder for the daemon's data.
type keeper interface {
	// DataFolder returns the folder, or "" if none is configured.
	DataFolder() string
}

// placeRenewed sets the folder of the renewed certificate, if it is not configured, to one below the
// folder of the daemon's data.
func placeRenewed[C any, P configuration[C]](cfg P) {
	common := cfg.CommonConfig()
	if kept, ok := any(cfg).(keeper); ok && common.TLSRenewed == "" && kept.DataFolder() != "" {
		common.TLSRenewed = filepath.Join(kept.DataFolder(), "renewed")
	}
}

// run does the work of Main after the configuration is loaded.
func run(ctx context.Context, name string, common Common, build func(context.Context, app.Host) (app.Daemon, error)) error {
	base, level := obs.NewLogger(os.Stderr, common.LogLevel, common.LogFormat)
	log := base.With("daemon", name)
	host := app.Host{
		Log:     log,
		Metrics: obs.NewMetrics(),
		Health:  health.New(log),
		Network: rpc.TCP(),
	}
	var err error
	if host.Identity, err = common.Identity(identity.Options{Role: identity.Role(name), Log: log, Metrics: host.Metrics, Health: host.Health}); err != nil {
		return fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	host.NATS = NATS(name, common, log, host.Identity)
	return Serve(ctx, name, common, host, level, build)
}

// Serve runs a daemon on a host until ctx is done. Main calls it once the host is made; a process
// with several daemons calls it for each. Errors do not name the daemon; the caller adds the name.
func Serve(
	ctx context.Context, name string, common Common, host app.Host, level *slog.LevelVar, build func(context.Context, app.Host) (app.Daemon, error),
) error {
	lis, err := net.Listen("tcp", common.HTTPAddr)
	if err != nil {
		return ListenError("http-addr", err)
	}
	debug, err := listenDebug(common.DebugAddr)
	if err != nil {
		return errors.Join(err, lis.Close())
	}
	if debug != nil {
		defer debug.Close()
	}
	host.Log.Info("starting", "http", lis.Addr().String(), "debug", debugName(debug), "tls", host.Identity != nil)
	self, err := newProber(lis.Addr().String(), httpTLS(common.HTTPAddr, host.Identity))
	if err != nil {
		return errors.Join(err, lis.Close())
	}
	host.Guard = guard.New(host.Log, host.Metrics, host.Health)
	if host.Tracer, err = tracing.New(ctx, tracing.Options{Daemon: name, Version: obs.Version(), Endpoint: common.TraceEndpoint, Log: host.Log}); err != nil {
		return errors.Join(err, lis.Close())
	}
	defer host.Tracer.Close(host.Log)
	if host.Audit, err = common.openAudit(name, host); err != nil {
		return errors.Join(err, lis.Close())
	}
	defer host.Audit.Close() // after the last call is answered
	host.Network = host.Tracer.Network(host.Network)
	host.Health.Set(startCheck, errStarting)
	err = app.RunTasks(ctx,
		app.Task{Name: "certificate", Run: func(ctx context.Context) error { return keepIdentity(ctx, host.Identity) }},
		app.Task{Name: "http", Run: func(ctx context.Context) error { return serveMetrics(ctx, lis, common.HTTPAddr, host) }},
		app.Task{Name: "debug", Run: func(ctx context.Context) error { return serveDebug(ctx, debug, common.DebugAddr, host, level) }},
		app.Task{Name: "systemd", Run: func(ctx context.Context) error { return notifySystemd(ctx, host.Health, self) }},
		app.Task{Run: func(ctx context.Context) error { return runDaemon(ctx, host, build) }},
	)
	host.Log.Info("stopped")
	return err
}

// keepIdentity reloads the certificate when its files change. Without a certificate it only waits
// for ctx.
func keepIdentity(ctx context.Context, source *identity.Source) error {
	if source == nil {
		<-ctx.Done()
		return nil
	}
	return source.Run(ctx)
}

// startCheck is the health check that keeps a daemon from being ready while it is built.
const startCheck = "start"

var errStarting = errors.New("starting")

// runDaemon builds and runs the daemon. If the daemon ends before ctx is done, runDaemon returns an
// error even if the daemon returned none, so that the process ends with an error and its supervisor
// restarts it.
func runDaemon(ctx context.Context, host app.Host, build func(context.Context, app.Host) (app.Daemon, error)) error {
	d, err := build(ctx, host)
	if err != nil {
		return err
	}
	host.Health.Set(startCheck, nil)
	err = d.Run(ctx)
	if err == nil && ctx.Err() == nil {
		return errors.New("ended without being told to")
	}
	return err
}

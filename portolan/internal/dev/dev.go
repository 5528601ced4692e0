package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nats-io/nats.go"

	"portolan.dev/services/changes/broker"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/token"
)

// Installation holds all daemons in one process.
type Installation struct {
	options Options
	out     *printer
	network *rpc.MemoryNetwork
	nats    *broker.Broker
	token   *token.Token // that clients have to send
	log     *slog.Logger
	level   *slog.LevelVar
	health  map[string]*health.Registry
}

// Run starts everything, reports when it is ready, and stops everything when ctx ends.
func Run(ctx context.Context, options Options, out *os.File) error {
	if err := options.Validate(); err != nil {
		return err
	}
	if err := options.Bindable(); err != nil {
		return err
	}
	if err := os.MkdirAll(options.DataDir, 0o700); err != nil {
		return err
	}
	if err := checkFolder(options.DataDir); err != nil {
		return err
	}
	held, err := lock(options.dir("lock"))
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	secret, err := token.Create(TokenFile(options.DataDir))
	if err != nil {
		return err
	}
	defer func() { _ = secret.Remove() }()
	if err := writeKubeconfig(&options, secret); err != nil {
		return err
	}
	defer func() { _ = os.Remove(options.kubeconfig()) }()
	bus := broker.New(broker.Options{MaxMsgs: streamMessages})
	defer bus.Close()
	log, level := obs.NewLogger(os.Stderr, options.LogLevel, obs.FormatAuto)
	i := &Installation{
		options: options, out: &printer{w: out}, network: rpc.Memory(), nats: bus, token: secret, log: log, level: level, health: map[string]*health.Registry{},
	}
	return i.run(ctx)
}

// run runs the daemons. Beside them it reports when they are ready, and runs the example.
func (i *Installation) run(ctx context.Context) error {
	tasks := i.daemons()
	tasks = append(tasks, app.Task{Name: "ready", Run: i.announceReady})
	err := app.RunTasks(ctx, tasks...)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w\nis another installation running? --bind 127.0.0.2 --dns-addr 127.0.0.2:7053 gives this one other addresses", err)
	}
	return err
}

// daemonTask returns the task that runs one daemon as its own main function would, on this
// process's network.
func daemonTask[C any, D app.Daemon](i *Installation, name string, cfg C, common daemon.Common, build func(context.Context, C, app.Host) (D, error)) app.Task {
	log := i.log.With("daemon", name)
	checks := health.New(log)
	checks.Set(startedCheck, errors.New("not begun")) // a daemon's own checks exist only once it runs
	i.health[name] = checks
	host := app.Host{
		Log: log, Metrics: obs.NewMetrics(), Health: checks, Network: i.network, Token: i.token,
		NATS: daemon.NATS(name, common, log, nil, nats.InProcessServer(i.nats.Dialer(name))),
	}
	return app.Task{Name: name, Run: func(ctx context.Context) error {
		return daemon.Serve(ctx, name, common, host, i.level, func(ctx context.Context, host app.Host) (app.Daemon, error) {
			checks.Set(startedCheck, nil)
			return build(ctx, cfg, host)
		})
	}}
}

// streamMessages is the number of changes in the stream, which is in memory. Followers read older
// ones from the log.
const streamMessages = 1000

// DefaultDataDir is the default data directory, below the working directory.
const DefaultDataDir = ".portolan"

// TokenFile returns the file in a data directory that has the token of the running installation.
func TokenFile(dataDir string) string { return filepath.Join(dataDir, "token") }

// startedCheck is the name of the check that keeps a daemon from being ready before it was started.
const startedCheck = "begun"

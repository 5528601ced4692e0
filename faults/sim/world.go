package sim

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/faults/sim/netem"
	"portolan.dev/faults/sim/network"
	"portolan.dev/faults/sim/registry"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/broker"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/rpc"
)

// world has the daemons of one simulation, and the simulated services that they use.
type world struct {
	log         *slog.Logger
	startTime   time.Time
	emulator    *netem.Emulator
	broker      *broker.Broker
	registry    *registry.Registry
	handlers    network.Handlers // of the registry's log
	joinNetwork func(name string) killableNetwork
	running     map[string]*process
	shards      int              // of the endpoint controllers; 0: one
	cluster     *cluster         // of the scenario allocations
	nodes       map[string]*node // of the scenario agents
	tempDir     func() string    // creates a folder that is removed after the test

	failures []error
	natsCut  bool // whether a connection to NATS was ever cut
}

// relayName is the daemon name of the relay that each world starts.
const relayName = "relay"

// newWorld returns a world with a registry, a broker, and a relay that sends the registry's log to
// the broker.
func newWorld(t *testing.T, seed uint64, log io.Writer) *world {
	w := &world{startTime: time.Now(), emulator: netem.New(seed), running: map[string]*process{}, tempDir: t.TempDir}
	w.log = slog.New(slog.DiscardHandler)
	if log != nil {
		w.log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	w.broker = broker.New(broker.Options{Network: func(link string) broker.Fate { return broker.Fate(w.emulator.Next(link)) }})
	w.registry = registry.New(t, w.emulator)
	w.handlers = network.NewHandlers(w.registry.Log.Register)
	w.joinNetwork = func(name string) killableNetwork { return network.New(name, w.emulator, w.registry, w.handlers) }
	w.start(relayName, w.newRelay)
	return w
}

// killableNetwork is the network of one daemon.
type killableNetwork interface {
	rpc.Network
	// Kill ends all communication of the daemon, as if its process had died.
	Kill()
}

// process is a running daemon.
type process struct {
	daemon  app.Daemon
	network killableNetwork
	cancel  context.CancelFunc
	result  chan error
}

// start starts the daemon with the given name unless it runs.
func (w *world) start(name string, open func(ctx context.Context, host app.Host) (app.Daemon, error)) {
	if w.running[name] == nil {
		w.run(name, w.joinNetwork(name), open)
	}
}

// run starts a daemon that uses the given network.
func (w *world) run(name string, network killableNetwork, open func(ctx context.Context, host app.Host) (app.Daemon, error)) {
	p := &process{network: network, result: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	log := w.log.With("daemon", name)
	metrics, checks := prometheus.NewRegistry(), health.New(log)
	d, err := open(ctx, app.Host{
		Log: log, Metrics: metrics, Health: checks, Network: p.network, Guard: guard.New(log, metrics, checks),
		NATS: daemon.NATS(name, daemon.Common{}, log, nil, nats.InProcessServer(w.broker.Dialer(name))),
	})
	if err != nil {
		cancel()
		w.failures = append(w.failures, fmt.Errorf("start %s: %w", name, err))
		return
	}
	p.daemon = d
	w.running[name] = p
	go func() { p.result <- d.Run(ctx) }()
}

// stop stops a daemon and waits until it has ended. If kill is set, the daemon first loses its
// network, so that it cannot shut down cleanly.
func (w *world) stop(name string, kill bool) {
	p := w.running[name]
	if p == nil {
		return
	}
	delete(w.running, name)
	if kill {
		p.network.Kill()
		w.cutNATS(name)
	}
	p.cancel()
	if err := <-p.result; err != nil {
		w.failures = append(w.failures, fmt.Errorf("%s: %w", name, err))
	}
}

// close stops all daemons, waits until delayed calls have arrived, and closes the broker.
func (w *world) close() {
	for name := range w.running {
		w.stop(name, false)
	}
	time.Sleep(time.Minute)
	w.broker.Close()
}

// play carries out the events at their times. Afterwards it ends all impairments, makes NATS
// reachable, and starts the relay if it does not run.
func (w *world) play(events []Event) {
	for _, e := range events {
		time.Sleep(e.At - time.Since(w.startTime))
		w.log.Info("event", "text", e.Text)
		e.Do(w)
	}
	w.emulator.Clear()
	w.setNATSAway(false)
	w.start(relayName, w.newRelay)
}

// cutNATS closes the connections of a daemon to NATS. The empty name stands for all daemons.
func (w *world) cutNATS(name string) {
	w.natsCut = true
	w.broker.Cut(name)
}

// setNATSAway makes NATS unreachable, or reachable again.
func (w *world) setNATSAway(away bool) {
	w.natsCut = w.natsCut || away
	w.broker.SetAway(away)
}

// waitUntilConsistent calls check once a second until check returns no problem twice in a row.
// After the timeout it returns the last problem as an error.
func (w *world) waitUntilConsistent(timeout time.Duration, check func() string) error {
	const pause = time.Second
	for passes, until := 0, time.Now().Add(timeout); ; {
		time.Sleep(pause)
		problem := check()
		if passes++; problem != "" {
			passes = 0
		}
		switch {
		case passes == 2:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("after %s at rest:\n%s", timeout, problem)
		}
	}
}

// relay is a relay that closes its own connection to NATS when it ends.
type relay struct {
	*changes.Relay
	nats app.Bus
}

// Run implements app.Daemon.
func (r relay) Run(ctx context.Context) error {
	defer r.nats.Close()
	return r.Relay.Run(ctx)
}

func (w *world) newRelay(_ context.Context, host app.Host) (app.Daemon, error) {
	nc, err := host.NATS("relay")
	if err != nil {
		return nil, err
	}
	r, err := changes.NewRelay(changes.RelayConfig{NATS: nc, Log: w.registry.Log, Logger: host.Log, Metrics: host.Metrics})
	return relay{r, nc}, err
}

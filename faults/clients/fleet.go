package clients

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/history"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// defaultTimeout is the timeout of operations that have no other.
const defaultTimeout = 10 * time.Second

// Config is the configuration of a Fleet. An optional field that is empty has a default, or means
// that there are no such clients.
type Config struct {
	// Seed determines the choices of the clients. With equal seeds, each client makes the same
	// choices.
	Seed uint64
	// Registries are the addresses of all replicas. They are required.
	Registries []string
	// NATS is the URL of the change stream. If it is empty, followers read only the registry's log.
	NATS string
	// Allocator is the address of the allocator.
	Allocator string
	// NameServers are the name servers as host:port. Names are the fully qualified names that
	// clients resolve at each.
	NameServers, Names []string
	// Identity is an operator's identity for an installation with certificates. Nil means plain
	// text.
	Identity *identity.Source
	// Routes are addresses of services with backends that echo their input (labtest.Echo).
	Routes []Route
	// Dial dials registries, NATS, the allocator and name servers. The default dials from the
	// process's own network.
	Dial Dial
	// LogDial dials registries to read the log, on which all checks depend. The default is Dial. It
	// should use a network without faults, because a log that was pruned meanwhile cannot be read
	// any more.
	LogDial Dial

	// Actors generate the writes of clients, each in its own namespace, which must exist.
	Actors []*workload.Actor
	// Balancers are the addresses that services of type LoadBalancer request. If there are any, a client writes such
	// services.
	Balancers []string
	// RunID is part of each WriteID. It must be different in each run on the same installation.
	RunID string
	// Writers is the number of clients that compete for the same objects. The default is 6.
	Writers int
	// ThinkTime is the mean pause between two calls of a writer or an actor. The default is 20 ms.
	ThinkTime time.Duration
	// CallTimeout is the timeout of a call, a DNS query and a probe. The default is 3 s.
	CallTimeout time.Duration
	// AnswerTimeout is the time without an answer after which an open connection counts as lost.
	// The default is 30 s.
	AnswerTimeout time.Duration
	// Interval is the pause between two DNS queries, probes, or messages on an open connection. The
	// default is 50 ms.
	Interval time.Duration
}

// Route is an address of a service, and a network from which clients connect to it.
type Route struct {
	// From is the name of the network, and Dial dials from it.
	From string
	Dial Dial
	// To is an address of the service, or an address of a node with a node port.
	To netip.AddrPort
}

// Fleet is a set of running clients.
type Fleet struct {
	config     Config
	recorder   *history.Recorder
	random     *rand.Rand
	registries []registry
	log        *sharedLog
	closers    []func()

	writers, observers *group // clients that write, and all others
	mu                 sync.Mutex
	errs               []error
}

// group is a set of clients that are stopped together.
type group struct {
	running sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc
}

func newGroup() *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

func (g *group) launch(run func(context.Context)) {
	g.running.Go(func() { run(g.ctx) })
}

func (g *group) stop() {
	g.cancel()
	g.running.Wait()
}

// Start creates the namespace of the objects for which writers compete, reads the beginning of the
// log, and starts all clients. They record into recorder.
func Start(ctx context.Context, config Config, recorder *history.Recorder) (*Fleet, error) {
	config.Writers = cmp.Or(config.Writers, 6)
	config.ThinkTime = cmp.Or(config.ThinkTime, 20*time.Millisecond)
	config.CallTimeout = cmp.Or(config.CallTimeout, 3*time.Second)
	config.AnswerTimeout = cmp.Or(config.AnswerTimeout, 30*time.Second)
	config.Interval = cmp.Or(config.Interval, 50*time.Millisecond)
	if config.Dial == nil {
		config.Dial = direct
	}
	if config.LogDial == nil {
		config.LogDial = config.Dial
	}
	f := &Fleet{
		config: config, recorder: recorder, random: rand.New(rand.NewPCG(config.Seed, 0)), writers: newGroup(), observers: newGroup(),
	}
	if err := f.start(ctx); err != nil {
		_ = f.Stop() // err is the cause
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context) error {
	if len(f.config.Registries) == 0 {
		return errors.New("clients need at least one registry")
	}
	registries, err := f.dial(f.config.Registries, f.config.Dial, identity.Registry)
	if err != nil {
		return err
	}
	f.registries = registries
	if err := f.prepare(ctx); err != nil {
		return err
	}
	if err := errors.Join(f.startWatchers(), f.startAllocationLister()); err != nil {
		return err
	}
	f.startNameClients()
	f.startConnections()
	f.startWriters()
	return errors.Join(f.startActors(), f.startBalancerOwner())
}

// dial returns a connection to each address. Close closes them.
func (f *Fleet) dial(addresses []string, dial Dial, role identity.Role) ([]registry, error) {
	all, closeAll, err := dialAll(addresses, dial, f.config.Identity.DialOption(role))
	if err == nil {
		f.closers = append(f.closers, closeAll)
	}
	return all, err
}

// prepare creates the namespace and starts to read the log.
func (f *Fleet) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	namespace := &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: Namespace}}
	apply := &registryv1.ApplyRequest{Object: object.Wrap(namespace)}
	if _, err := registryv1.NewApplyServiceClient(f.registries[0]).Apply(ctx, apply); err != nil {
		return fmt.Errorf("namespace %s: %w", Namespace, err)
	}
	readers, err := f.dial(f.config.Registries, f.config.LogDial, identity.Registry)
	if err != nil {
		return err
	}
	if f.log, err = newSharedLog(ctx, readers); err != nil {
		return fmt.Errorf("beginning of the log: %w", err)
	}
	for _, r := range readers {
		f.observers.launch(func(ctx context.Context) { f.log.poll(ctx, r) })
	}
	return nil
}

// newRandom returns the random generator of one client.
func (f *Fleet) newRandom() *rand.Rand {
	return rand.New(rand.NewPCG(f.random.Uint64(), f.random.Uint64()))
}

func (f *Fleet) startWriters() {
	for n := range f.config.Writers {
		w := &writer{
			caller: f.caller(fmt.Sprintf("writer-%d", n)), registries: f.registries, random: f.newRandom(), objects: contendedObjects(),
			thinkTime: f.config.ThinkTime, callTimeout: f.config.CallTimeout, known: map[object.Key]history.Version{},
		}
		f.writers.launch(w.run)
	}
}

func (f *Fleet) caller(name string) caller {
	return caller{name: name, runID: f.config.RunID, recorder: f.recorder}
}

// startActors starts the actors. They use all registries as one target.
func (f *Fleet) startActors() error {
	if len(f.config.Actors) == 0 {
		return nil
	}
	all, err := f.dial([]string{strings.Join(f.config.Registries, ",")}, f.config.Dial, identity.Registry)
	if err != nil {
		return err
	}
	for _, w := range f.config.Actors {
		a := &actor{
			caller: f.caller(w.Namespace()), workload: w, registry: all[0], thinkTime: f.config.ThinkTime, callTimeout: f.config.CallTimeout,
		}
		f.writers.launch(a.run)
	}
	return nil
}

// startBalancerOwner starts the client that writes services of type LoadBalancer. It uses all registries as one target.
func (f *Fleet) startBalancerOwner() error {
	if len(f.config.Balancers) == 0 {
		return nil
	}
	all, err := f.dial([]string{strings.Join(f.config.Registries, ",")}, f.config.Dial, identity.Registry)
	if err != nil {
		return err
	}
	owner := &balancerOwner{
		registry: all[0], random: f.newRandom(), recorder: f.recorder, requested: f.config.Balancers, thinkTime: f.config.ThinkTime, callTimeout: f.config.CallTimeout,
	}
	f.writers.launch(owner.run)
	return nil
}

// startWatchers starts a watcher of each kind that changes registries, a follower at each registry,
// and a client that reads the log.
func (f *Fleet) startWatchers() error {
	for _, kind := range kinds.All {
		w := &watcher{
			name: "watcher of " + kind.Plural, kind: kind.Name, registries: f.registries, random: f.newRandom(), recorder: f.recorder,
			meanStreamTime: 2 * time.Second,
		}
		f.observers.launch(w.run)
	}
	reader := &logFollower{name: "reader of the log", registries: f.registries, recorder: f.recorder, interval: f.config.Interval, log: f.log.initial()}
	f.observers.launch(reader.run)
	for _, r := range f.registries {
		nc, err := f.connectNATS()
		if err != nil {
			return err
		}
		client := &follower{name: "follower at " + r.address, registry: r, nats: nc, recorder: f.recorder}
		f.observers.launch(func(ctx context.Context) { f.addError(client.run(ctx)) })
	}
	return nil
}

// connectNATS returns a connection to NATS, or nil if there is no NATS.
func (f *Fleet) connectNATS() (*nats.Conn, error) {
	if f.config.NATS == "" {
		return nil, nil
	}
	nc, err := nats.Connect(f.config.NATS, f.config.natsOptions()...)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	f.closers = append(f.closers, nc.Close)
	return nc, nil
}

func (f *Fleet) startNameClients() {
	for _, server := range f.config.NameServers {
		n := &nameClient{
			server: server, dial: f.config.Dial, names: f.config.Names, random: f.newRandom(), recorder: f.recorder,
			interval: f.config.Interval, timeout: f.config.CallTimeout,
		}
		f.observers.launch(n.run)
	}
}

func (f *Fleet) startConnections() {
	for _, route := range f.config.Routes {
		c := &persistentClient{
			name: "keeper " + route.From, target: route.To, dial: route.Dial, recorder: f.recorder,
			interval: f.config.Interval, answerTimeout: f.config.AnswerTimeout,
		}
		f.observers.launch(c.run)
		p := &prober{
			name: "prober " + route.From, target: route.To, dial: route.Dial, recorder: f.recorder,
			interval: f.config.Interval, timeout: f.config.CallTimeout,
		}
		f.observers.launch(p.run)
	}
}

func (f *Fleet) startAllocationLister() error {
	if f.config.Allocator == "" {
		return nil
	}
	all, err := f.dial([]string{f.config.Allocator}, f.config.Dial, identity.Allocator)
	if err != nil {
		return err
	}
	l := &allocationLister{allocator: all[0], recorder: f.recorder, interval: 10 * f.config.Interval}
	f.observers.launch(l.run)
	return nil
}

// addError stores the error of a client that had to stop.
func (f *Fleet) addError(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

// History returns all records so far, with the current log. It can be called while clients run, and
// retries until a registry answers.
func (f *Fleet) History(ctx context.Context) (*history.History, error) {
	log, err := f.Log(ctx)
	h := f.recorder.History() // after the log, so that it has the calls of all changes
	h.Log = log
	return h, err
}

// Log returns the current log. It can be called while clients run, and retries until a registry
// answers.
func (f *Fleet) Log(ctx context.Context) (history.Log, error) { return f.log.read(ctx) }

// RereadLog reads the whole log from each registry once more and records it, so that checkers can
// compare the readings. Call it at the end of a run. The log must not have been pruned.
func (f *Fleet) RereadLog(ctx context.Context) error {
	for _, r := range f.registries {
		if err := rereadLog(ctx, r, f.log.initial(), f.recorder); err != nil {
			return fmt.Errorf("%s: %w", r.address, err)
		}
	}
	return nil
}

// StopWriters stops all writers after their current call. Other clients continue, so that they can
// receive the last changes.
func (f *Fleet) StopWriters() { f.writers.stop() }

// Stop stops all clients after their current call, and returns the errors of clients that had to
// stop earlier. It may be called more than once.
func (f *Fleet) Stop() error {
	f.writers.stop()
	f.observers.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.errs...)
}

// Close closes all connections, after Stop.
func (f *Fleet) Close() {
	for _, closer := range slices.Backward(f.closers) {
		closer()
	}
}

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

// patience bounds operations without a deadline of their own.
const defaultTimeout = 10 * time.Second

// Config is the configuration of a Fleet: the parts of the installation that its clients use, and
// how. An empty field has a default, or means that there are no such clients.
type Config struct {
	// Seed determines the choices of the clients. With equal seeds, each client makes the same
	// choices.
	Seed uint64
	// Registries are the addresses of all replicas; required.
	Registries []string
	// NATS is the URL of the change stream. Without it, followers read the registry's log alone.
	NATS string
	// Allocator is its address.
	Allocator string
	// NameServers are host:port, and Names the fully qualified names that are asked of each.
	NameServers, Names []string
	// Identity is an operator's identity, for an installation with certificates; nil: plain text.
	Identity *identity.Source
	// Routes are the ways to reach services with backends that echo their input (labtest.Echo).
	Routes []Route
	// Control dials registries, NATS, allocator and name servers; nil: from the process itself.
	Dial Dial
	// Log dials registries to read their log, by which everything is judged; nil: Control does.
	// Give one that the nemesis leaves alone, because a log that was pruned cannot be read any
	// more.
	LogDial Dial

	// Actors make up the writes of clients that have a namespace each, which must exist.
	Actors []*workload.Actor
	// Run is part of the mark of each write. Two runs on one installation need different ones.
	RunID string
	// Writers is how many compete for the same objects; 0: 6.
	Writers int
	// Think is the mean pause between two calls of a writer or an actor; 0: 20 ms.
	ThinkTime time.Duration
	// Deadline bounds a call, a question and an attempt to connect; 0: 3 s.
	CallTimeout time.Duration
	// KeepFor is how long an answer through an open connection may take before the connection
	// counts as lost; 0: 30 s.
	AnswerTimeout time.Duration
	// Every is the pause between two questions, attempts or uses of a connection; 0: 50 ms.
	Interval time.Duration
}

// Route is a way to a service.
type Route struct {
	// From names where connections come from, and Dial makes them there.
	From string
	Dial Dial
	// To is an address of the service, or one of a node with a port of the service.
	To netip.AddrPort
}

// Fleet is running clients.
type Fleet struct {
	config     Config
	recorder   *history.Recorder
	random     *rand.Rand
	registries []registry
	log        *sharedLog
	closers    []func()

	writers, observers *group // the clients that write, and all others
	mu                 sync.Mutex
	errs               []error
}

// group is clients that are stopped together.
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

// Start reads where the log begins, makes the namespace of the objects that writers compete for,
// and starts all clients. Their records go to the recorder.
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
		_ = f.Stop() // the first error counts
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
	return f.startActors()
}

// dial returns a connection to each address of a role, until Close.
func (f *Fleet) dial(addresses []string, dial Dial, role identity.Role) ([]registry, error) {
	all, closeAll, err := dialAll(addresses, dial, f.config.Identity.DialOption(role))
	if err == nil {
		f.closers = append(f.closers, closeAll)
	}
	return all, err
}

// prepare makes the namespace, and reads the log from here on.
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
		return fmt.Errorf("where the log begins: %w", err)
	}
	for _, r := range readers {
		f.observers.launch(func(ctx context.Context) { f.log.poll(ctx, r) })
	}
	return nil
}

// chance returns the randomness of one client.
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

// startActors starts the actors, which use all registries as one.
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

// startWatchers starts a watcher of each kind that moves from registry to registry, a follower at
// each registry, and a tail that reads the log itself.
func (f *Fleet) startWatchers() error {
	for _, kind := range kinds.All {
		w := &watcher{
			name: "watcher of " + kind.Plural, kind: kind.Name, registries: f.registries, random: f.newRandom(), recorder: f.recorder,
			meanStreamTime: 2 * time.Second,
		}
		f.observers.launch(w.run)
	}
	t := &logFollower{name: "reader of the log", registries: f.registries, recorder: f.recorder, interval: f.config.Interval, log: f.log.initial()}
	f.observers.launch(t.run)
	for _, r := range f.registries {
		nc, err := f.connectNATS()
		if err != nil {
			return err
		}
		follow := &follower{name: "follower at " + r.address, registry: r, nats: nc, recorder: f.recorder}
		f.observers.launch(func(ctx context.Context) { f.addError(follow.run(ctx)) })
	}
	return nil
}

// connect connects to NATS; nil: there is none.
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
		a := &nameClient{
			server: server, dial: f.config.Dial, names: f.config.Names, random: f.newRandom(), recorder: f.recorder,
			interval: f.config.Interval, timeout: f.config.CallTimeout,
		}
		f.observers.launch(a.run)
	}
}

func (f *Fleet) startConnections() {
	for _, route := range f.config.Routes {
		k := &persistentClient{
			name: "keeper " + route.From, target: route.To, dial: route.Dial, recorder: f.recorder,
			interval: f.config.Interval, answerTimeout: f.config.AnswerTimeout,
		}
		f.observers.launch(k.run)
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
	h := &allocationLister{allocator: all[0], recorder: f.recorder, interval: 10 * f.config.Interval}
	f.observers.launch(h.run)
	return nil
}

// note keeps the error of a client that could not go on.
func (f *Fleet) addError(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

// History returns all that is recorded so far, with the current log. It can be called while clients
// run, and retries until a registry answers.
func (f *Fleet) History(ctx context.Context) (*history.History, error) {
	log, err := f.Log(ctx)
	h := f.recorder.History() // after the log: it is to have the calls of all changes
	h.Log = log
	return h, err
}

// Log returns the current log. It can be called while clients run, and retries until a registry
// answers.
func (f *Fleet) Log(ctx context.Context) (history.Log, error) { return f.log.read(ctx) }

// ReadAgain reads the whole log from each registry once more, so that checkers can compare it with
// the earlier readings. It is for the end of a run. The log must not have been pruned.
func (f *Fleet) RereadLog(ctx context.Context) error {
	for _, r := range f.registries {
		if err := rereadLog(ctx, r, f.log.initial(), f.recorder); err != nil {
			return fmt.Errorf("%s: %w", r.address, err)
		}
	}
	return nil
}

// StopWriters lets every writer end its call. The others go on, so that they can see the end.
func (f *Fleet) StopWriters() { f.writers.stop() }

// Stop lets every client end its call, and returns the errors of those that could not go on.
// Stopping again does nothing.
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

package clients

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"portolan.dev/faults/history"
	corev1 "portolan.dev/proto/portolan/core/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/object"
)

// patience bounds what has no deadline of its own.
const patience = 10 * time.Second

// Config says what clients use and how. Fields that are empty have defaults, or mean that there are
// no such clients.
type Config struct {
	// Seed decides what clients do. Equal seeds make each client choose alike.
	Seed uint64
	// Registries are the addresses of all replicas; required.
	Registries []string
	// NATS is the URL of the change stream. Without it, followers read the registry's log alone.
	NATS string
	// Allocator is its address.
	Allocator string
	// NameServers are host:port, and Names the fully qualified names that are asked of each.
	NameServers, Names []string
	// Virtual are addresses of services whose backends are Echo.
	Virtual []netip.AddrPort
	// Control dials registries, NATS, allocator and name servers; nil: from the process itself.
	Control Dial
	// Places are where connections to Virtual come from, by name; empty: the process itself.
	Places map[string]Dial

	// Writers is how many compete for the same objects; 0: 6.
	Writers int
	// Think is the mean pause between two calls of a writer; 0: 20 ms.
	Think time.Duration
	// Deadline bounds a call, a question and an attempt to connect; 0: 3 s.
	Deadline time.Duration
	// KeepFor is how long an answer through an open connection may take before the connection
	// counts as lost; 0: 30 s.
	KeepFor time.Duration
	// Every is the pause between two questions, attempts or uses of a connection; 0: 50 ms.
	Every time.Duration
}

// Fleet is running clients.
type Fleet struct {
	config     Config
	recorder   *history.Recorder
	random     *rand.Rand
	registries []registry
	log        history.Log
	closers    []func()

	writing, watching *group // those who write, and all others
	mu                sync.Mutex
	errs              []error
}

// group is clients that are stopped together.
type group struct {
	running sync.WaitGroup
	ctx     context.Context
	stopAll context.CancelFunc
}

func newGroup() *group {
	g := &group{}
	g.ctx, g.stopAll = context.WithCancel(context.Background())
	return g
}

func (g *group) launch(run func(context.Context)) {
	g.running.Go(func() { run(g.ctx) })
}

func (g *group) stop() {
	g.stopAll()
	g.running.Wait()
}

// Start reads where the log begins, makes the namespace of the objects that writers compete for,
// and starts all clients. Their records go to the recorder.
func Start(ctx context.Context, config Config, recorder *history.Recorder) (*Fleet, error) {
	config.Writers = cmp.Or(config.Writers, 6)
	config.Think = cmp.Or(config.Think, 20*time.Millisecond)
	config.Deadline = cmp.Or(config.Deadline, 3*time.Second)
	config.KeepFor = cmp.Or(config.KeepFor, 30*time.Second)
	config.Every = cmp.Or(config.Every, 50*time.Millisecond)
	if config.Control == nil {
		config.Control = direct
	}
	if len(config.Places) == 0 {
		config.Places = map[string]Dial{"here": direct}
	}
	f := &Fleet{
		config: config, recorder: recorder, random: rand.New(rand.NewPCG(config.Seed, 0)), writing: newGroup(), watching: newGroup(),
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
	registries, closeAll, err := dialAll(f.config.Registries, f.config.Control)
	if err != nil {
		return err
	}
	f.registries, f.closers = registries, append(f.closers, closeAll)
	if err := f.prepare(ctx); err != nil {
		return err
	}
	if err := errors.Join(f.startWatchers(), f.startHolder()); err != nil {
		return err
	}
	f.startAskers()
	f.startConnections()
	f.startWriters()
	return nil
}

// prepare makes the namespace and reads where the log begins.
func (f *Fleet) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	namespace := &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: Namespace}}
	apply := &registryv1.ApplyRequest{Object: object.Wrap(namespace)}
	if _, err := registryv1.NewApplyServiceClient(f.registries[0]).Apply(ctx, apply); err != nil {
		return fmt.Errorf("namespace %s: %w", Namespace, err)
	}
	log, err := readSnapshot(ctx, f.registries[0])
	if err != nil {
		return fmt.Errorf("where the log begins: %w", err)
	}
	f.log = log
	return nil
}

// chance returns the randomness of one client.
func (f *Fleet) chance() *rand.Rand {
	return rand.New(rand.NewPCG(f.random.Uint64(), f.random.Uint64()))
}

func (f *Fleet) startWriters() {
	for n := range f.config.Writers {
		w := &writer{
			name: fmt.Sprintf("writer-%d", n), registries: f.registries, random: f.chance(), recorder: f.recorder, subjects: subjects(),
			think: f.config.Think, deadline: f.config.Deadline, known: map[object.Key]history.Version{},
		}
		f.writing.launch(w.run)
	}
}

// startWatchers starts a watcher of each kind that goes from registry to registry, a follower at
// each registry, and one who reads the log itself.
func (f *Fleet) startWatchers() error {
	for _, kind := range object.Kinds {
		w := &watcher{
			name: "watcher of " + kind.Plural, kind: kind.Name, registries: f.registries, random: f.chance(), recorder: f.recorder,
			stay: 2 * time.Second,
		}
		f.watching.launch(w.run)
	}
	t := &tail{name: "reader of the log", registries: f.registries, recorder: f.recorder, every: f.config.Every, log: f.log}
	t.log.Changes = slices.Clone(t.log.Changes)
	f.watching.launch(t.run)
	for _, r := range f.registries {
		nc, err := f.connect()
		if err != nil {
			return err
		}
		follow := &follower{name: "follower at " + r.address, registry: r, nats: nc, recorder: f.recorder}
		f.watching.launch(func(ctx context.Context) { f.note(follow.run(ctx)) })
	}
	return nil
}

// connect connects to NATS; nil: there is none.
func (f *Fleet) connect() (*nats.Conn, error) {
	if f.config.NATS == "" {
		return nil, nil
	}
	nc, err := nats.Connect(f.config.NATS, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.SetCustomDialer(natsDialer{f.config.Control}))
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	f.closers = append(f.closers, nc.Close)
	return nc, nil
}

func (f *Fleet) startAskers() {
	for _, server := range f.config.NameServers {
		a := &asker{
			server: server, dial: f.config.Control, names: f.config.Names, random: f.chance(), recorder: f.recorder,
			every: f.config.Every, deadline: f.config.Deadline,
		}
		f.watching.launch(a.run)
	}
}

func (f *Fleet) startConnections() {
	for place, dial := range f.config.Places {
		for _, target := range f.config.Virtual {
			k := &keeper{
				name: "keeper " + place, target: target, dial: dial, recorder: f.recorder,
				every: f.config.Every, patience: f.config.KeepFor,
			}
			f.watching.launch(k.run)
			p := &prober{
				name: "prober " + place, target: target, dial: dial, recorder: f.recorder,
				every: f.config.Every, deadline: f.config.Deadline,
			}
			f.watching.launch(p.run)
		}
	}
}

func (f *Fleet) startHolder() error {
	if f.config.Allocator == "" {
		return nil
	}
	all, closeAll, err := dialAll([]string{f.config.Allocator}, f.config.Control)
	if err != nil {
		return err
	}
	f.closers = append(f.closers, closeAll)
	h := &holder{allocator: all[0], recorder: f.recorder, every: 10 * f.config.Every}
	f.watching.launch(h.run)
	return nil
}

// note keeps the error of a client that could not go on.
func (f *Fleet) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

// History returns all that is recorded so far, with the log as it is now. It can be called while
// clients run, and asks until a registry answers.
func (f *Fleet) History(ctx context.Context) (*history.History, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := readLog(ctx, f.registries, &f.log)
	h := f.recorder.History() // after the log: it is to have the calls of all changes
	h.Log = f.log
	return h, err
}

// ReadAgain has each registry tell the whole log once more, for checkers to compare with what it
// said before. It is for the end of a run; the log must not have been pruned.
func (f *Fleet) ReadAgain(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.registries {
		if err := readAgain(ctx, r, f.log, f.recorder); err != nil {
			return fmt.Errorf("%s: %w", r.address, err)
		}
	}
	return nil
}

// StopWriters lets every writer end its call. The others go on, so that they can see the end.
func (f *Fleet) StopWriters() { f.writing.stop() }

// Stop lets every client end its call, and returns the errors of those that could not go on.
// Stopping again does nothing.
func (f *Fleet) Stop() error {
	f.writing.stop()
	f.watching.stop()
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

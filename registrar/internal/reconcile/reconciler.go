package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registrar/internal/objects"
	"portolan.dev/registrar/internal/view"
	"portolan.dev/registrar/source"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
	"portolan.dev/services/queue"
)

const (
	workers     = 8                // pods that are written at the same time
	callTimeout = 10 * time.Second // for all calls about one pod
)

// delays are the delays of the queue of pods. Quiet is zero, so that a container that was asked to stop gets
// no new connections from then on.
var delays = queue.Options{Longest: 500 * time.Millisecond, RetryMin: 200 * time.Millisecond, RetryMax: 30 * time.Second}

// Config is the configuration of a [Reconciler].
type Config struct {
	Objects objects.Builder
	// Bound is the only namespace in which the registrar may write; empty: all.
	Bound string
	// CreateServices creates missing services and namespaces.
	CreateServices bool
	// Sources are the names of the configured sources.
	Sources  []string
	Registry grpc.ClientConnInterface
	View     *view.View
	Guard    *guard.Guard
	// Warn writes an Event about a service, or about the node if the name is empty.
	Warn    func(service object.Name, reason, message string)
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Reconciler writes the registrar's pods. Make it with New and call Run once. Its methods are safe for
// concurrent use.
type Reconciler struct {
	cfg        Config
	pods       registryv1.PodServiceClient
	services   registryv1.ServiceServiceClient
	namespaces registryv1.NamespaceServiceClient
	queue      *queue.Queue[object.Name]
	problems   *problems
	metrics    *metrics
	read       chan struct{} // closed after the first Apply
	once       sync.Once

	mu      sync.Mutex
	sources map[string]*sourceState     // guarded by mu
	wanted  map[object.Name]*wanted     // guarded by mu: workloads by the names of their pods
	written map[object.Name]*corev1.Pod // guarded by mu: pods as the registry answered to a write, until the view has them
}

// wanted is a workload with its source.
type wanted struct {
	from     string
	workload *source.Workload
}

// New returns a reconciler.
func New(cfg Config) *Reconciler {
	r := &Reconciler{
		cfg: cfg, pods: registryv1.NewPodServiceClient(cfg.Registry), services: registryv1.NewServiceServiceClient(cfg.Registry),
		namespaces: registryv1.NewNamespaceServiceClient(cfg.Registry), queue: queue.New[object.Name](delays),
		problems: newProblems(cfg.Warn), read: make(chan struct{}),
		sources: map[string]*sourceState{}, wanted: map[object.Name]*wanted{}, written: map[object.Name]*corev1.Pod{},
	}
	for _, name := range cfg.Sources {
		r.sources[name] = &sourceState{}
	}
	r.metrics = newMetrics(cfg.Metrics, r)
	return r
}

// Apply applies changes of the registry. The follower calls it.
func (r *Reconciler) Apply(_ context.Context, batch []changes.Change, revision uint64) error {
	pods, services := r.cfg.View.Apply(batch, revision)
	r.mu.Lock()
	for _, name := range pods {
		if now := r.cfg.View.Pod(name); now == nil || version(now) >= version(r.written[name]) {
			delete(r.written, name)
		}
	}
	due := pods
	if len(services) > 0 {
		changed := make(map[object.Name]bool, len(services))
		for _, name := range services {
			changed[name] = true
		}
		for name, w := range r.wanted {
			if changed[r.cfg.Objects.ServiceName(w.workload)] {
				due = append(due, name)
			}
		}
	}
	r.mu.Unlock()
	for _, name := range due {
		r.queue.Add(name, 1)
	}
	r.once.Do(func() { close(r.read) })
	return nil
}

func version(pod *corev1.Pod) uint64 { return pod.GetMetadata().GetResourceVersion() }

// Run writes pods until ctx is done. It begins after the first Apply, when the view is complete.
func (r *Reconciler) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.read:
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { r.work(ctx) })
	}
	running.Wait()
	return nil
}

func (r *Reconciler) work(ctx context.Context) {
	for {
		due, ok := r.queue.Get(ctx)
		if !ok {
			return
		}
		err := r.trySync(ctx, due.Key)
		r.queue.Done(due.Key, err, 0)
		r.metrics.synced(err)
	}
}

// trySync syncs a pod and records its problems, among them a refusal by the registry.
func (r *Reconciler) trySync(ctx context.Context, name object.Name) error {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	w := r.want(name)
	var found []source.Problem
	err := r.cfg.Guard.Do("sync", guard.Object{Kind: "Pod", Namespace: name.Namespace, Name: name.Name}, func() (err error) {
		found, err = r.sync(limited, name, w)
		return err
	})
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		r.cfg.Log.Info("pod not registered, still trying", "pod", name.String(), "err", err)
		found = append(found, refusal(w, err)...)
	}
	about := object.Name{}
	if w != nil {
		about = r.cfg.Objects.ServiceName(w.workload)
	}
	r.problems.set("pod "+name.String(), about, found)
	return err
}

func (r *Reconciler) want(name object.Name) *wanted {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wanted[name]
}

// pod returns the newest known version of a pod, or nil.
func (r *Reconciler) pod(name object.Name) *corev1.Pod {
	seen := r.cfg.View.Pod(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if written := r.written[name]; version(written) > version(seen) {
		return written
	}
	return seen
}

// wrote records a pod as the registry answered to a write.
func (r *Reconciler) wrote(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[object.NameOf(pod)] = pod
}

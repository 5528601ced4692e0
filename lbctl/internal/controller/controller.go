package controller

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/events"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/object"
	"portolan.dev/services/queue"
	"portolan.dev/services/spec"

	"portolan.dev/lbctl/internal/providers"
	"portolan.dev/lbctl/internal/view"
)

// Config is the configuration of a [Controller].
type Config struct {
	Registry  grpc.ClientConnInterface
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	View      *view.View
	Guard     *guard.Guard
	Providers *providers.Set
	// Workers is the number of services that are synced at a time.
	Workers int
	Queue   queue.Options
	// PoolsDigest returns a number that changes whenever a waiting service may get an address. It is
	// called every PoolsInterval while a service waits. A provider that does not answer is called as often.
	PoolsDigest   func(context.Context) (uint64, error)
	PoolsInterval time.Duration
}

// Controller syncs services. Make it with New.
type Controller struct {
	cfg      Config
	services registryv1.ServiceServiceClient
	events   *events.Reporter[object.Name]
	queue    *queue.Queue[object.Name]
	metrics  *metrics
	leading  atomic.Bool

	mu      sync.Mutex
	waiting map[object.Name]string // guarded by mu: services that wait for an address, with their owner
	served  map[object.Name]served // guarded by mu: the inputs of the last successful call of a provider
	// unanswered has the services about which a provider has not answered, by class. Guarded by mu.
	unanswered map[string]map[object.Name]bool
	settings   map[object.Name]string // guarded by mu: the settings of each service that are not honoured
	nodes      string                 // guarded by mu: the eligible nodes, as digest returns them

	outage obs.Outage // of providers
}

// New returns a controller that does not lead.
func New(cfg Config) *Controller {
	c := &Controller{
		cfg: cfg, services: registryv1.NewServiceServiceClient(cfg.Registry),
		events: events.NewReporter[object.Name]("lbctl", registryv1.NewEventServiceClient(cfg.Registry), cfg.Log),
		queue:  queue.New[object.Name](cfg.Queue), waiting: map[object.Name]string{},
		served: map[object.Name]served{}, settings: map[object.Name]string{}, unanswered: map[string]map[object.Name]bool{},
		outage: obs.Outage{Log: cfg.Log, Down: "a provider, or the allocator behind it, does not answer; load balancers stay as they are", Up: "providers answer again"},
	}
	c.metrics = newMetrics(cfg.Metrics, c.queue.Len, cfg.View.Services)
	return c
}

// Apply applies changes of the registry.
func (c *Controller) Apply(_ context.Context, batch []changes.Change, _ uint64) error {
	nodes := c.cfg.View.Apply(batch)
	if nodes {
		c.applyNodes()
	}
	if !c.leading.Load() {
		return nil
	}
	for _, change := range batch {
		if change.Kind == "Service" {
			c.cfg.Guard.Run(stepEnqueue, guard.Object(change.Key), func() { c.applyService(change) })
		}
	}
	return nil
}

// applyNodes makes the services with load balancers due if the eligible nodes have changed.
func (c *Controller) applyNodes() {
	now := digest(c.cfg.View.EligibleNodes())
	c.mu.Lock()
	same := c.nodes == now
	c.nodes = now
	c.mu.Unlock()
	if same || !c.leading.Load() {
		return
	}
	for _, svc := range c.cfg.View.Services() {
		if spec.HasBalancerFinalizer(svc) {
			c.queue.Add(object.NameOf(svc), 1)
		}
	}
}

// applyService makes a changed service due. It also makes services due that wait for an address and may get one
// because of the change, and, if the addresses of the service have changed, services that share them.
func (c *Controller) applyService(change changes.Change) {
	old, _ := change.Old.(*corev1.Service)
	svc, _ := change.New.(*corev1.Service)
	var name object.Name
	if svc != nil {
		name = object.NameOf(svc)
	} else {
		name = object.NameOf(old)
	}
	c.queue.Add(name, 1)
	released := old != nil && spec.HasBalancerFinalizer(old) && (svc == nil || !spec.HasBalancerFinalizer(svc))
	var owners []string
	for _, one := range []*corev1.Service{old, svc} {
		if one != nil {
			owners = append(owners, spec.OwnerOfAddresses(one).UID)
		}
	}
	c.retryWaiting(func(waits object.Name, owner string) bool {
		return waits != name && (released || slices.Contains(owners, owner))
	})
	if !slices.Equal(ingressTexts(old.GetStatus().GetLoadBalancer()), ingressTexts(svc.GetStatus().GetLoadBalancer())) {
		for _, owner := range owners {
			c.addSharers(owner, name)
		}
	}
}

// addSharers makes the services due that share the addresses of an owner, except one.
func (c *Controller) addSharers(owner string, except object.Name) {
	for _, other := range c.cfg.View.Sharers(owner) {
		if name := object.NameOf(other); name != except {
			c.queue.Add(name, 1)
		}
	}
}

// retryWaiting makes the services due that wait for an address and match.
func (c *Controller) retryWaiting(match func(name object.Name, owner string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, owner := range c.waiting {
		if match(name, owner) {
			c.queue.Add(name, 1)
		}
	}
}

// Lead syncs every service, and then each service that changes, until ctx is done. The context fences
// the writes.
func (c *Controller) Lead(ctx context.Context) {
	c.mu.Lock()
	clear(c.waiting)
	clear(c.served)
	clear(c.settings)
	clear(c.unanswered)
	c.mu.Unlock()
	c.events.ForgetAll(func(object.Name) bool { return true })
	c.leading.Store(true)
	defer c.leading.Store(false)
	for _, step := range []string{stepEnqueue, stepSync, stepAnnounced} {
		defer c.cfg.Guard.Forget(step, func(guard.Object) bool { return true })
	}
	for _, svc := range c.cfg.View.Services() {
		c.queue.Add(object.NameOf(svc), 1)
	}
	var running sync.WaitGroup
	running.Go(func() { c.watchPools(ctx) })
	running.Go(func() { c.watchProviders(ctx) })
	for range c.cfg.Workers {
		running.Go(func() { c.work(ctx) })
	}
	running.Wait()
}

// Steps for a service that can panic apart.
const (
	stepEnqueue   = "enqueue"
	stepSync      = "sync"
	stepAnnounced = "announced"
)

// serviceOf returns a service in the form of the guard.
func serviceOf(name object.Name) guard.Object {
	return guard.Object{Kind: "Service", Namespace: name.Namespace, Name: name.Name}
}

// work syncs services that are due until ctx is done.
func (c *Controller) work(ctx context.Context) {
	for {
		due, ok := c.queue.Get(ctx)
		if !ok {
			return
		}
		err := c.cfg.Guard.Do(stepSync, serviceOf(due.Key), func() error { return c.sync(ctx, due.Key) })
		if errors.Is(err, errSuperseded) {
			err = nil // the change makes it due again
		}
		c.queue.Done(due.Key, err, 0)
		c.metrics.synced(err)
		if err != nil && (!isUnavailable(err) || errors.Is(err, errRegistryAway)) && ctx.Err() == nil {
			c.cfg.Log.Info("load balancer not synced", "service", due.Key.String(), "err", err)
		}
	}
}

// watchPools makes waiting services due when the pools have changed, until ctx is done.
func (c *Controller) watchPools(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.PoolsInterval)
	defer ticker.Stop()
	var last uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if c.noneWaits() {
			last = 0 // a service that begins to wait has seen all earlier changes by its own claim
			continue
		}
		now, err := c.cfg.PoolsDigest(ctx)
		if err != nil {
			c.cfg.Log.Debug("pools not read", "err", err)
			continue
		}
		if now != last {
			last = now
			c.retryWaiting(func(object.Name, string) bool { return true })
		}
	}
}

func (c *Controller) noneWaits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) == 0
}

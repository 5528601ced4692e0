package probe

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/services/object"
	"portolan.dev/services/probe"
)

// Options configure a Prober. Log and Write are required, the others have defaults.
type Options struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Write stores conditions in the status of a pod.
	Write Writer
	// Parallel is the maximum number of checks that run at once. Default 64.
	Parallel int
	// Spread is the longest random delay of a container's first check, so that many pods are not
	// checked all at once. Default: a tenth of the period, at most 1 s.
	Spread time.Duration
	// RetryMin and RetryMax bound the pause after a failed write. Defaults 200 ms and 15 s.
	RetryMin, RetryMax time.Duration
}

func (o Options) withDefaults() Options {
	if o.Parallel == 0 {
		o.Parallel = 64
	}
	if o.RetryMin == 0 {
		o.RetryMin = 200 * time.Millisecond
	}
	if o.RetryMax == 0 {
		o.RetryMax = 15 * time.Second
	}
	return o
}

// Prober probes the pods of a node. It is safe for concurrent use.
type Prober struct {
	opts    Options
	slots   chan struct{} // one per running check
	results *prometheus.CounterVec

	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // of Run; nil before
	pods  map[object.Key]*podProber
	tasks sync.WaitGroup
}

// New returns a prober without pods.
func New(o Options) *Prober {
	o = o.withDefaults()
	p := &Prober{
		opts: o, slots: make(chan struct{}, o.Parallel), pods: map[object.Key]*podProber{},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_probes_total", Help: "Readiness probes, by result (success, failure).",
		}, []string{"result"}),
	}
	if o.Metrics != nil {
		o.Metrics.MustRegister(p.results, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_nodeagent_probed_pods", Help: "Pods of this node whose readiness is watched.",
		}, func() float64 { return float64(p.Pods()) }))
	}
	return p
}

// Run probes until ctx is done. It returns when all of its goroutines have ended.
func (p *Prober) Run(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	for _, pod := range p.pods {
		pod.start(ctx)
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock() // calls of Set after this start no goroutines
	p.mu.Unlock()
	p.tasks.Wait()
	return nil
}

// Pods returns the number of watched pods.
func (p *Prober) Pods() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pods)
}

// Set sets the pods of the node as they are in the registry. The probes of a pod restart if its
// probes, its address or its incarnation have changed.
func (p *Prober) Set(pods []*corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make(map[object.Key]bool, len(pods))
	for _, pod := range pods {
		key := object.KeyOf(pod)
		seen[key] = true
		old := p.pods[key]
		if old != nil && old.matches(pod) {
			old.updatePod(pod)
			continue
		}
		if old != nil {
			old.stop()
		}
		p.pods[key] = p.add(pod)
	}
	for key, pod := range p.pods {
		if !seen[key] {
			pod.stop()
			delete(p.pods, key)
		}
	}
}

func (p *Prober) add(pod *corev1.Pod) *podProber {
	pp := newPodProber(p, pod)
	if p.ctx != nil && p.ctx.Err() == nil {
		pp.start(p.ctx)
	}
	return pp
}

// jitter returns the random delay of a first check.
func (p *Prober) jitter(period time.Duration) time.Duration {
	spread := p.opts.Spread
	if spread == 0 {
		spread = min(period/10, time.Second)
	}
	return rand.N(spread) // #nosec G404 -- a pause is no secret
}

// check runs one check as soon as a slot is free.
func (p *Prober) check(ctx context.Context, timeout time.Duration, check probe.Check) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := check(ctx)
	result := "success"
	if err != nil {
		result = "failure"
	}
	p.results.WithLabelValues(result).Inc()
	return err
}

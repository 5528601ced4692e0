package probe

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/internal/script"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
	"portolan.dev/services/probe"
)

// Options configure a Prober. Log and Write are required, the others have defaults.
type Options struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Guard catches panics of the work for one pod.
	Guard *guard.Guard
	// Write stores conditions in the status of a pod.
	Write Writer
	// Scripts has the scripts of exec checks. Default: none, all exec checks are refused.
	Scripts *script.Folder
	// Refused is called once for each container with a refused exec check. Default: nothing.
	Refused func(pod object.Key, reason error)
	// NodeAddress returns the main address of the node, at which pods of the host network are probed.
	// Default: none, such pods need an address of their own.
	NodeAddress func() string
	// Parallel is the maximum number of checks that run at once, except scripts. Default 64.
	Parallel int
	// ParallelScripts is the maximum number of scripts that run at once. Default 8.
	ParallelScripts int
	// ReportPause is the time for which a ttl check takes no report after one that has changed the
	// readiness of its container. It bounds the writes that a client can cause. Default 1 s.
	ReportPause time.Duration
	// Spread is the longest random delay of a container's first check, so that many pods are not
	// checked all at once. Default: a tenth of the period, at most 1 s.
	Spread time.Duration
	// RetryMin and RetryMax bound the pause after a failed write. Defaults 200 ms and 15 s.
	RetryMin, RetryMax time.Duration
}

func (o Options) withDefaults() Options {
	if o.Scripts == nil {
		o.Scripts = &script.Folder{}
	}
	if o.Refused == nil {
		o.Refused = func(object.Key, error) {}
	}
	if o.NodeAddress == nil {
		o.NodeAddress = func() string { return "" }
	}
	if o.Parallel == 0 {
		o.Parallel = 64
	}
	if o.ParallelScripts == 0 {
		o.ParallelScripts = 8
	}
	if o.ReportPause == 0 {
		o.ReportPause = time.Second
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
	slots   chan struct{} // one per running check, except scripts
	scripts chan struct{} // one per running script
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
		opts: o, slots: make(chan struct{}, o.Parallel), scripts: make(chan struct{}, o.ParallelScripts), pods: map[object.Key]*podProber{},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_probes_total", Help: "Readiness probes and reports of ttl checks, by kind (tcp, http, grpc, exec, ttl, none) and result (success, failure).",
		}, []string{"kind", "result"}),
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
		p.opts.Guard.Run(stepProbe, guard.Object(key), func() { p.set(key, pod) })
	}
	for key, pod := range p.pods {
		if !seen[key] {
			pod.stop()
			delete(p.pods, key)
		}
	}
	for _, step := range []string{stepProbe, stepCheck, stepWrite} {
		p.opts.Guard.Forget(step, func(o guard.Object) bool { return !seen[object.Key(o)] })
	}
}

// Steps for a pod that can panic apart.
const (
	stepProbe = "probe"
	stepCheck = "check"
	stepWrite = "readiness"
)

// set sets a pod. The caller holds the lock.
func (p *Prober) set(key object.Key, pod *corev1.Pod) {
	old := p.pods[key]
	if old != nil && old.matches(pod) {
		old.updatePod(pod)
		return
	}
	next := newPodProber(p, pod)
	if old != nil {
		old.stop()
	}
	p.pods[key] = p.begin(next)
}

// Readdress restarts the probes of the pods that are probed at the node's main address, if it has changed.
func (p *Prober) Readdress() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, pp := range p.pods {
		pp.mu.Lock()
		pod := pp.pod
		pp.mu.Unlock()
		if !pp.matches(pod) {
			pp.stop()
			p.pods[key] = p.add(pod)
		}
	}
}

func (p *Prober) add(pod *corev1.Pod) *podProber { return p.begin(newPodProber(p, pod)) }

// begin starts the probes of a pod if the prober runs.
func (p *Prober) begin(pp *podProber) *podProber {
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

// check runs one check as soon as a slot is free. Scripts have slots of their own, so that slow ones do
// not delay the checks of other pods.
func (p *Prober) check(ctx context.Context, kind string, timeout time.Duration, check probe.Check) error {
	slots := p.slots
	if kind == kindExec {
		slots = p.scripts
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := check(ctx)
	p.count(kind, err)
	return err
}

// count counts the result of a check.
func (p *Prober) count(kind string, err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	p.results.WithLabelValues(kind, result).Inc()
}

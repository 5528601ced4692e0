package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/internal/script"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/wake"
	"portolan.dev/services/object"
	"portolan.dev/services/probe"
)

// podProber probes one pod. It has a goroutine for each container with a probe, and one that writes
// the result.
type podProber struct {
	prober *Prober
	key    object.Key
	addr   string // at which the pod is probed; empty: it has none
	cancel context.CancelFunc
	done   <-chan struct{} // closed when the prober stops with the pod; nil: it has not started
	wake   wake.Signal     // tells the writer to compare again

	mu         sync.Mutex
	pod        *corev1.Pod // as last seen in the registry
	containers []*containerProber
}

// containerProber is the state of one container's probe.
type containerProber struct {
	container *corev1.Container
	timing    timing
	ready     bool
	last      error      // why the container is not ready
	reports   chan error // outcomes of a ttl check; nil: another check
}

func newPodProber(p *Prober, pod *corev1.Pod) *podProber {
	pp := &podProber{prober: p, key: object.KeyOf(pod), addr: p.podAddr(pod), pod: pod, wake: wake.New(), cancel: func() {}}
	known := object.IsReady(pod.GetStatus().GetConditions())
	for _, c := range probed(pod) {
		cp := &containerProber{container: c, timing: timingOf(c.GetReadinessProbe()), ready: known, last: errNotProbed}
		if c.GetReadinessProbe().GetTtl() != nil {
			cp.last, cp.reports = errNotReported, make(chan error)
		}
		pp.containers = append(pp.containers, cp)
	}
	return pp
}

// probed returns the containers of a pod that have readiness probes.
func probed(pod *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for _, c := range pod.GetSpec().GetContainers() {
		if c.GetReadinessProbe() != nil {
			out = append(out, c)
		}
	}
	for _, c := range pod.GetSpec().GetInitContainers() {
		if c.GetReadinessProbe() != nil && c.GetRestartPolicy() == "Always" {
			out = append(out, c)
		}
	}
	return out
}

// matches reports whether the pod is the same incarnation, at the same address and with the same
// probes.
func (pp *podProber) matches(pod *corev1.Pod) bool {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	if pp.addr != pp.prober.podAddr(pod) || pp.pod.GetMetadata().GetUid() != pod.GetMetadata().GetUid() || running(pp.pod) != running(pod) {
		return false
	}
	containers := probed(pod)
	if len(containers) != len(pp.containers) {
		return false
	}
	for i, c := range containers {
		if !c.EqualVT(pp.containers[i].container) {
			return false
		}
	}
	return true
}

// updatePod stores the pod as the registry now has it.
func (pp *podProber) updatePod(pod *corev1.Pod) {
	pp.mu.Lock()
	pp.pod = pod
	pp.mu.Unlock()
	pp.wake.Send()
}

// start starts the goroutines. The caller holds the prober's lock.
func (pp *podProber) start(ctx context.Context) {
	ctx, pp.cancel = context.WithCancel(ctx)
	pp.done = ctx.Done()
	if running(pp.pod) {
		for _, c := range pp.containers {
			if c.reports != nil {
				pp.prober.tasks.Go(func() { pp.awaitReports(ctx, c) })
				continue
			}
			pp.prober.tasks.Go(func() { pp.probe(ctx, c) })
		}
	}
	pp.wake.Send()
	pp.prober.tasks.Go(func() { pp.write(ctx) })
}

func (pp *podProber) stop() { pp.cancel() }

// running reports whether the pod is running, so that it can be probed.
func running(pod *corev1.Pod) bool {
	return pod.GetStatus().GetPhase() == corev1.PodPhase_POD_PHASE_RUNNING
}

// probe checks one container periodically until ctx is done.
func (pp *podProber) probe(ctx context.Context, c *containerProber) {
	check := pp.guardedCheck(c)
	if !app.Pause(ctx, c.timing.delay+pp.prober.jitter(c.timing.period)) {
		return
	}
	ticker := time.NewTicker(c.timing.period)
	defer ticker.Stop()
	warned := false
	for run := (streak{}); ; {
		err := pp.prober.check(ctx, kindOf(c.container.GetReadinessProbe()), c.timing.timeout, check)
		if ctx.Err() != nil {
			return
		}
		if !warned && errors.Is(err, script.ErrRefused) {
			pp.prober.opts.Refused(pp.key, err)
			warned = true
		}
		if run.add(err, c.timing) {
			pp.setResult(c, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// guardedCheck returns the check of a container. A check that panics, or that cannot be made, has failed. If making it
// panics, it is made again the next time.
func (pp *podProber) guardedCheck(c *containerProber) probe.Check {
	var check probe.Check
	var bad error
	return func(ctx context.Context) error {
		return pp.prober.opts.Guard.Do(stepCheck, guard.Object(pp.key), func() error {
			if check == nil && bad == nil {
				check, bad = pp.newCheck(c.container)
			}
			if bad != nil {
				return bad
			}
			return check(ctx)
		})
	}
}

// streak counts equal results in a row.
type streak struct {
	good  bool
	count int
}

// add counts a result and reports whether the streak has reached its threshold.
func (s *streak) add(err error, t timing) bool {
	if good := err == nil; good != s.good || s.count == 0 {
		*s = streak{good: good}
	}
	s.count++
	if s.good {
		return s.count >= t.successes
	}
	return s.count >= t.failures
}

// setResult stores the result of a probe.
func (pp *podProber) setResult(c *containerProber, err error) {
	pp.mu.Lock()
	changed := c.ready != (err == nil)
	first := errors.Is(c.last, errNotProbed) || errors.Is(c.last, errNotReported)
	c.ready, c.last = err == nil, err
	pp.mu.Unlock()
	if changed || first {
		pp.prober.opts.Log.Info("readiness changed", "pod", pp.key.Path(), "container", c.container.GetName(), "ready", err == nil, "err", err)
		pp.wake.Send()
	}
}

// podReadiness is the value that a pod's conditions should have.
type podReadiness struct {
	containersReady, ready bool
	reason, message        string
}

// readiness derives the readiness of the pod from the probes, the pod's phase and its readiness gates.
func (pp *podProber) readiness() (*corev1.Pod, podReadiness) {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	v := podReadiness{containersReady: true, ready: true}
	if !running(pp.pod) {
		v = podReadiness{reason: "PodNotRunning", message: "phase " + phaseName(pp.pod)}
		return pp.pod, v
	}
	var waiting []string
	for _, c := range pp.containers {
		if !c.ready {
			waiting = append(waiting, fmt.Sprintf("container %s: %v", c.container.GetName(), c.last))
		}
	}
	if len(waiting) > 0 {
		return pp.pod, podReadiness{reason: "ContainersNotReady", message: strings.Join(waiting, "; ")}
	}
	for _, gate := range pp.pod.GetSpec().GetReadinessGates() {
		if !object.IsTrue(pp.pod.GetStatus().GetConditions(), gate.GetConditionType()) {
			waiting = append(waiting, gate.GetConditionType())
		}
	}
	if len(waiting) > 0 {
		v.ready, v.reason, v.message = false, "ReadinessGatesNotReady", "waiting for conditions "+strings.Join(waiting, ", ")
	}
	return pp.pod, v
}

func phaseName(pod *corev1.Pod) string {
	return strings.ToLower(strings.TrimPrefix(pod.GetStatus().GetPhase().String(), "POD_PHASE_"))
}

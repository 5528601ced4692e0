package probe

import (
	"context"
	"fmt"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

// Report stores the outcome of a ttl check of a pod: nil, or the reason of the failure. An empty
// container stands for the only one with a ttl check. It returns the time within which the next
// report must follow. The error is NotFound for a pod that is not on this node, and
// FailedPrecondition for one without such a check or that is not running.
func (p *Prober) Report(ctx context.Context, key object.Key, container string, failure error) (time.Duration, error) {
	p.mu.Lock()
	pp := p.pods[key]
	p.mu.Unlock()
	if pp == nil {
		return 0, apierr.NotFound("Pod", key.Path())
	}
	c, err := pp.reported(container)
	if err != nil {
		return 0, err
	}
	if pp.done == nil {
		return 0, apierr.Unavailable("the node agent is starting: report again", time.Second)
	}
	select {
	case c.reports <- failure:
	case <-pp.done:
		return 0, apierr.Unavailable("the pod has just changed: report again", time.Second)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	p.count(kindTTL, failure)
	return c.ttl(), nil
}

// Pod returns a pod of this node as it was last seen in the registry, or nil.
func (p *Prober) Pod(key object.Key) *corev1.Pod {
	p.mu.Lock()
	pp := p.pods[key]
	p.mu.Unlock()
	if pp == nil {
		return nil
	}
	pp.mu.Lock()
	defer pp.mu.Unlock()
	return pp.pod
}

// reported returns the container with the given name, or the only one, that has a ttl check.
func (pp *podProber) reported(name string) (*containerProber, error) {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	var found []*containerProber
	for _, c := range pp.containers {
		if c.reports != nil && (name == "" || name == c.container.GetName()) {
			found = append(found, c)
		}
	}
	switch {
	case len(found) == 0 && name == "":
		return nil, apierr.FailedPrecondition(fmt.Sprintf("pod %s has no ttl check: give a container the readiness probe ttl", pp.key.Path()))
	case len(found) == 0:
		return nil, apierr.FailedPrecondition(fmt.Sprintf("container %q of pod %s has no ttl check, or does not exist", name, pp.key.Path()))
	case len(found) > 1:
		return nil, apierr.FailedPrecondition(fmt.Sprintf("several containers of pod %s have a ttl check: name one", pp.key.Path()))
	case !running(pp.pod):
		return nil, apierr.FailedPrecondition(fmt.Sprintf("pod %s is not running: its phase is %s", pp.key.Path(), phaseName(pp.pod)))
	}
	return found[0], nil
}

// ttl returns the time to live of a report.
func (c *containerProber) ttl() time.Duration {
	return time.Duration(c.container.GetReadinessProbe().GetTtl().GetSeconds()) * time.Second
}

// awaitReports derives the readiness of a container with a ttl check from the reports of a client,
// until ctx is done. A container that the registry has as ready stays so for one time to live.
func (pp *podProber) awaitReports(ctx context.Context, c *containerProber) {
	expiry := time.NewTimer(c.ttl())
	defer expiry.Stop()
	pp.mu.Lock()
	ready := c.ready
	pp.mu.Unlock()
	if !ready {
		expiry.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case failure := <-c.reports:
			expiry.Reset(c.ttl())
			if failure != nil {
				expiry.Stop()
			}
			pp.setResult(c, failure)
			if now := failure == nil; now != ready && !app.Pause(ctx, pp.prober.opts.ReportPause) {
				return
			}
			ready = failure == nil
		case <-expiry.C:
			pp.setResult(c, fmt.Errorf("no client has reported within %s that it is ready", c.ttl()))
			ready = false
		}
	}
}

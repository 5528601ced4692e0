package main

import (
	"context"
	"fmt"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/services/kit/yardstick"
)

// flipTimes are the times from the start of the call that changes a pod's readiness.
type flipTimes struct {
	called    []time.Duration // until the call has returned
	committed []time.Duration // until the registry's watch has the slice
	seen      []time.Duration // until the follower has the slice
}

// measureFlip measures the way of one pod's readiness into its slice and to a follower, among few
// services and among many, in turns. Then it measures the CPU time of flips in services of different
// sizes.
func (b *bench) measureFlip(ctx context.Context) error {
	few, many, flips := 100, 10_000, 300
	if b.Quick {
		many, flips = 2_000, 60
	}
	var all []*installation
	for _, services := range []int{few, many} {
		i, err := b.installComplete(ctx, fmt.Sprintf("flip%d", services), uniform(services, 10))
		if err != nil {
			return err
		}
		all = append(all, i)
	}
	times := make([]flipTimes, len(all))
	for n := range flips {
		for k, i := range all {
			// A pod that becomes not ready becomes ready in the next flip.
			if err := i.flip(ctx, n/2*7919%len(i.sizes), n/2%10, n%2 == 1, &times[k]); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\none pod's readiness, %d flips, ms from the start of the call (%s of it endpointctl waits for more changes):\n", flips, quietTime)
	for k, i := range all {
		fmt.Printf("%6d services: call p50 %.1f p99 %.1f; slice committed p50 %.1f p99 %.1f; seen by a follower p50 %.1f p99 %.1f\n", len(i.sizes),
			rig.Quantile(times[k].called, 50), rig.Quantile(times[k].called, 99), rig.Quantile(times[k].committed, 50), rig.Quantile(times[k].committed, 99),
			rig.Quantile(times[k].seen, 50), rig.Quantile(times[k].seen, 99))
		i.stop()
	}
	b.rig.Ratio("flip_p50_many_vs_100_services", rig.Quantile(times[1].seen, 50)/rig.Quantile(times[0].seen, 50), yardstick.AtMost(1.3))
	b.rig.Ratio("flip_seen_p50_ms", rig.Quantile(times[1].seen, 50), yardstick.Target{})
	b.rig.Ratio("flip_seen_p99_ms", rig.Quantile(times[1].seen, 99), yardstick.AtMost(50))
	return b.measureFlipBySize(ctx)
}

// measureFlipBySize measures the CPU time of a flip in services of different sizes.
func (b *bench) measureFlipBySize(ctx context.Context) error {
	i, err := b.installComplete(ctx, "sizes", sizes{10, 100, 1000, 5000})
	if err != nil {
		return err
	}
	flips := 200
	if b.Quick {
		flips = 60
	}
	fmt.Println()
	perFlip := make([]float64, len(i.sizes))
	for k, pods := range i.sizes {
		profiled := func() error { return nil }
		if k == len(i.sizes)-1 {
			profiled = b.profileDaemons(ctx, "flip", i)
		}
		var times flipTimes
		before := i.cpu()
		for n := range flips {
			if err := i.flip(ctx, k, n/2*7919%pods, n%2 == 1, &times); err != nil {
				return err
			}
		}
		used := i.cpu().since(before)
		perFlip[k] = float64(used.endpointctl.Microseconds()) / 1000 / float64(flips)
		fmt.Printf("a flip in a service of %4d pods: seen p50 %.1f ms, p99 %.1f ms; CPU: %s\n", pods, rig.Quantile(times.seen, 50), rig.Quantile(times.seen, 99), used.per(flips))
		if err := profiled(); err != nil {
			return err
		}
	}
	b.rig.Ratio("flip_cpu_ms_5000_pods", perFlip[len(perFlip)-1], yardstick.Target{})
	i.stop()
	return nil
}

// installComplete starts an installation with a controller, and returns when all slices and
// Endpoints are complete.
func (b *bench) installComplete(ctx context.Context, name string, n sizes) (*installation, error) {
	i, err := b.install(ctx, name, n)
	if err != nil {
		return nil, err
	}
	if err := i.startController(ctx); err != nil {
		return nil, err
	}
	if _, err := i.waitComplete(ctx); err != nil {
		return nil, err
	}
	_, err = i.waitLegacy(ctx)
	return i, err
}

// flip changes the readiness of a pod and waits until the follower has seen it.
func (i *installation) flip(ctx context.Context, service, k int, ready bool, times *flipTimes) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	name := podName(service, k)
	committed, seen := i.observer.expect(name, ready)
	address := 1 + sizes(i.sizes[:service]).pods() + k
	begin := time.Now()
	_, err := i.pods().UpdatePodStatus(ctx, &registryv1.UpdatePodStatusRequest{Pod: &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Namespace: namespace, Name: name}, Status: status(address, ready),
	}})
	if err != nil {
		return err
	}
	times.called = append(times.called, time.Since(begin))
	for _, wait := range []struct {
		at   <-chan time.Time
		into *[]time.Duration
	}{{committed, &times.committed}, {seen, &times.seen}} {
		select {
		case at := <-wait.at:
			*wait.into = append(*wait.into, at.Sub(begin))
		case <-ctx.Done():
			return fmt.Errorf("pod %s ready %v: %w", name, ready, context.Cause(ctx))
		}
	}
	return nil
}

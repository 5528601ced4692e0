package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/yardstick"
)

// The arithmetic of KEP-752, "EndpointSlices", section "Estimation": an endpoint has about 100
// bytes, a rolling update changes every endpoint once, and each change sends its whole object to
// every node. For its cluster of 5,000 nodes and 20,000 endpoints that is 20,000 × 2 MB × 5,000 =
// 200 TB with Endpoints, and 20,000 × 10 KB × 5,000 = 1 TB with slices of 100.
const (
	kepEndpointBytes = 100
	kepSlice         = 100
)

// traffic counts the messages of the change stream that every node agent receives.
type traffic struct {
	mu       sync.Mutex
	messages map[string]int // guarded by mu: by kind
	bytes    map[string]int // guarded by mu: by kind
}

func (t *traffic) count(m *nats.Msg) {
	_, rest, _ := strings.Cut(m.Subject, ".chg.")
	kind, _, found := strings.Cut(rest, ".")
	if !found {
		kind = "bookmark"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages[kind]++
	t.bytes[kind] += m.Size()
}

// take returns the counts since the last call.
func (t *traffic) take() (messages, bytes map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	messages, bytes = t.messages, t.bytes
	t.messages, t.bytes = map[string]int{}, map[string]int{}
	return messages, bytes
}

// measureRolling measures the messages to every node agent while all pods of a large service are replaced:
// first as fast as 16 clients can, then one pod after the other, each as soon as the slices have the pod
// before.
func (b *bench) measureRolling(ctx context.Context) error {
	pods, oneByOne := 5000, 250
	if b.Quick {
		pods, oneByOne = 1000, 50
	}
	i, err := b.installComplete(ctx, "rolling", uniform(1, pods))
	if err != nil {
		return err
	}
	received, err := i.countTraffic()
	if err != nil {
		return err
	}
	fmt.Printf("\nrolling restart of a service of %d pods; to each agent:\n", pods)
	fmt.Printf("%23s: slices %5d messages, %7.1f MB; with Endpoints %.0f MB\n", "by KEP-752's arithmetic", pods, mb(pods*kepSlice*kepEndpointBytes), mb(pods*pods*kepEndpointBytes))
	for n, pace := range []pace{{"parallel", 16, pods}, {"serial", 1, oneByOne}} {
		if err := b.measurePace(ctx, i, received, n+1, pace); err != nil {
			return err
		}
	}
	i.stop()
	return nil
}

// pace is a way to replace pods.
type pace struct {
	name    string
	clients int // number of pods that are replaced at once; a single client waits for the slices
	count   int // number of pods that are replaced
}

// measurePace replaces pods and prints the messages to an agent, scaled to all pods of the service.
func (b *bench) measurePace(ctx context.Context, i *installation, received *traffic, run int, p pace) error {
	before, began := i.cpu(), time.Now()
	if err := i.replace(ctx, run, p); err != nil {
		return err
	}
	took, used := time.Since(began), i.cpu().since(before)
	messages, bytes := received.take()
	pods := i.sizes.pods()
	scale := func(n int) float64 { return float64(n) * float64(pods) / float64(p.count) }
	fmt.Printf("%23s: slices %5.0f messages, %7.1f MB; Endpoints %5.0f, %7.1f MB; pods %5.0f, %5.1f MB (%d pods replaced in %.1f s; CPU for each: %s)\n",
		p.name, scale(messages["EndpointSlice"]), scale(bytes["EndpointSlice"])/1e6, scale(messages["Endpoints"]), scale(bytes["Endpoints"])/1e6,
		scale(messages["Pod"]), scale(bytes["Pod"])/1e6, p.count, took.Seconds(), used.per(p.count))
	kepBytes := float64(pods * kepSlice * kepEndpointBytes)
	b.rig.Ratio("rolling_"+p.name+"_messages_vs_kep", scale(messages["EndpointSlice"])/float64(pods), yardstick.Target{})
	b.rig.Ratio("rolling_"+p.name+"_bytes_vs_kep", scale(bytes["EndpointSlice"])/kepBytes, yardstick.Target{})
	b.rig.Ratio("rolling_"+p.name+"_all_bytes_vs_kep", scale(bytes["EndpointSlice"]+bytes["Endpoints"]+bytes["Pod"])/kepBytes, yardstick.Target{})
	return nil
}

func mb(bytes int) float64 { return float64(bytes) / 1e6 }

// countTraffic subscribes to all that node agents subscribe to.
func (i *installation) countTraffic() (*traffic, error) {
	subjects, err := changes.NewSubjects(i.Name)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(i.rig.NATS.URL)
	if err != nil {
		return nil, err
	}
	i.rig.Defer(conn.Close)
	t := &traffic{messages: map[string]int{}, bytes: map[string]int{}}
	if _, err := conn.Subscribe(subjects.Followed(), t.count); err != nil {
		return nil, err
	}
	return t, conn.Flush()
}

// replace replaces the first pods of the service by others, and waits until the follower has all pods
// in slices.
func (i *installation) replace(ctx context.Context, run int, p pace) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Minute, errors.New("pods are not replaced in time"))
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	next := make(chan int)
	var clients sync.WaitGroup
	for range p.clients {
		clients.Go(func() {
			for k := range next {
				if err := i.replacePod(ctx, run, k, p.clients == 1); err != nil {
					fail(err)
				}
			}
		})
	}
	for k := range p.count {
		next <- k
	}
	close(next)
	clients.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err := i.waitComplete(ctx)
	return err
}

// replacementName returns the name of a pod after a run. Run 0 is the start.
func replacementName(run, k int) string {
	if run == 0 {
		return podName(0, k)
	}
	return fmt.Sprintf("%s-run%d", podName(0, k), run)
}

// replacePod creates the successor of a pod, makes it ready, and deletes the pod. If wait is set, it
// waits after each of these changes until the slices show it.
func (i *installation) replacePod(ctx context.Context, run, k int, wait bool) error {
	fresh := pod(replacementName(run, k), 0, 100_000+run*10_000+k)
	if _, err := i.pods().CreatePod(ctx, &registryv1.CreatePodRequest{Pod: fresh}); err != nil {
		return err
	}
	_, seen := i.observer.expect(fresh.GetMetadata().GetName(), true)
	if _, err := i.pods().UpdatePodStatus(ctx, &registryv1.UpdatePodStatusRequest{Pod: fresh}); err != nil {
		return err
	}
	if wait {
		select {
		case <-seen:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	atOnce := int64(0)
	_, err := i.pods().DeletePod(ctx, &registryv1.DeletePodRequest{Namespace: namespace, Name: replacementName(run-1, k), GracePeriodSeconds: &atOnce})
	if err == nil && wait {
		_, err = i.waitComplete(ctx)
	}
	return err
}

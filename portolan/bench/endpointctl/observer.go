package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

// observer follows the slices and Endpoints of an installation, as a daemon does: with a snapshot,
// and then over NATS. It also watches the slices at the registry, because that sends a change as soon as
// it is committed.
type observer struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	synced chan struct{} // closed after the first snapshot

	mu        sync.Mutex
	ready     map[string]int // guarded by mu: ready endpoints by slice
	slices    int            // guarded by mu: slices
	endpoints int            // guarded by mu: ready endpoints of all slices
	legacy    int            // guarded by mu: Endpoints
	committed []expectation  // guarded by mu: of the watch
	seen      []expectation  // guarded by mu: of the follower
	changed   chan struct{}  // guarded by mu: closed at the next change
}

// expectation is the readiness of one pod in a slice. The channel gets the time at which a slice has
// it.
type expectation struct {
	pod   string
	ready bool
	at    chan time.Time
}

// observe starts an observer and returns when it has its snapshot.
func observe(ctx context.Context, i *installation) (*observer, error) {
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{cancel: cancel, synced: make(chan struct{}), ready: map[string]int{}, changed: make(chan struct{})}
	i.rig.Defer(o.stop)
	conn, err := nats.Connect(i.rig.NATS.URL)
	if err != nil {
		return nil, err
	}
	i.rig.Defer(conn.Close)
	var once sync.Once
	follower, err := changes.NewFollower(changes.FollowerConfig{
		Registry: i.Conn, NATS: conn, Prefix: i.Name, Kinds: []string{"EndpointSlice", "Endpoints"}, Log: slog.New(slog.DiscardHandler),
		Apply: func(_ context.Context, batch []changes.Change, _ uint64) error {
			o.apply(batch)
			once.Do(func() { close(o.synced) })
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	o.done.Go(func() { _ = follower.Run(ctx) })
	select {
	case <-o.synced:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	o.done.Go(func() { o.watch(ctx, registryv1.NewEndpointSliceServiceClient(i.Conn), follower.Revision()) })
	return o, nil
}

func (o *observer) stop() {
	o.cancel()
	o.done.Wait()
}

// watch watches the slices at the registry after a revision, until ctx is done.
func (o *observer) watch(ctx context.Context, client registryv1.EndpointSliceServiceClient, revision uint64) {
	for ctx.Err() == nil {
		stream, err := client.WatchEndpointSlices(ctx, &registryv1.WatchEndpointSlicesRequest{FromRevision: revision})
		for err == nil {
			var batch *registryv1.WatchEndpointSlicesResponse
			if batch, err = stream.Recv(); err != nil {
				break
			}
			revision = batch.GetRevision()
			now := time.Now()
			o.mu.Lock()
			for _, change := range batch.GetChanges() {
				o.committed = meet(o.committed, change.GetEndpointSlice(), now)
			}
			o.mu.Unlock()
		}
		app.Pause(ctx, 100*time.Millisecond)
	}
}

// apply applies changes that the follower has received.
func (o *observer) apply(batch []changes.Change) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := range batch {
		switch c := &batch[n]; c.Kind {
		case "Endpoints":
			o.legacy += exists(c.New) - exists(c.Old)
		case "EndpointSlice":
			slice, _ := c.New.(*corev1.EndpointSlice)
			ready := readyEndpoints(slice)
			o.slices += exists(c.New) - exists(c.Old)
			o.endpoints += ready - o.ready[c.Key.Name]
			o.ready[c.Key.Name] = ready
			o.seen = meet(o.seen, slice, now)
		}
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

func exists(o object.Object) int {
	if o == nil {
		return 0
	}
	return 1
}

func readyEndpoints(slice *corev1.EndpointSlice) int {
	n := 0
	for _, ep := range slice.GetEndpoints() {
		if ep.GetConditions().GetReady() {
			n++
		}
	}
	return n
}

// meet returns the expectations that a slice does not meet.
func meet(open []expectation, slice *corev1.EndpointSlice, now time.Time) []expectation {
	if len(open) == 0 {
		return nil
	}
	found := map[string]bool{}
	for _, ep := range slice.GetEndpoints() {
		found[ep.GetTargetRef().GetName()] = ep.GetConditions().GetReady()
	}
	var left []expectation
	for _, e := range open {
		if ready, ok := found[e.pod]; ok && ready == e.ready {
			e.at <- now
		} else {
			left = append(left, e)
		}
	}
	return left
}

// expect returns channels for the times at which a pod's readiness is committed in a slice, and seen
// by the follower.
func (o *observer) expect(pod string, ready bool) (committed, seen <-chan time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := expectation{pod, ready, make(chan time.Time, 1)}
	s := expectation{pod, ready, make(chan time.Time, 1)}
	o.committed, o.seen = append(o.committed, c), append(o.seen, s)
	return c.at, s.at
}

// wait waits until the counts of slices, ready endpoints and Endpoints satisfy a condition. It
// returns the time at which they did.
func (o *observer) wait(ctx context.Context, what string, enough func(slices, endpoints, legacy int) bool) (time.Time, error) {
	for {
		o.mu.Lock()
		slices, endpoints, legacy, changed := o.slices, o.endpoints, o.legacy, o.changed
		o.mu.Unlock()
		if enough(slices, endpoints, legacy) {
			return time.Now(), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%s: %d slices, %d ready endpoints, %d Endpoints: %w", what, slices, endpoints, legacy, context.Cause(ctx))
		}
	}
}

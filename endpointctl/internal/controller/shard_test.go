package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/registrytest"
	"portolan.dev/services/queue"
)

// sharded returns a controller with four shards, that has applied services web-0 to web-11.
func sharded(t *testing.T, r *registrytest.Registry, quiet time.Duration) *Controller {
	t.Helper()
	r.Put(&corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "l", Namespace: "default"}, Spec: &corev1.LeaseSpec{Epoch: 1}})
	c := New(Config{
		Registry: kittest.Conn(t, r.Register), Log: kittest.Logger(t), Metrics: prometheus.NewRegistry(), Index: index.New(nil),
		Shards: 4, MaxPerSlice: 100, Workers: 2, SyncTimeout: time.Minute, LastingFailure: time.Hour, Recheck: time.Hour,
		Queue: queue.Options{Quiet: quiet, Longest: quiet, RetryMin: time.Millisecond, RetryMax: time.Millisecond},
	})
	var batch []changes.Change
	for i := range 12 {
		svc := service()
		svc.Metadata.Name = fmt.Sprint("web-", i)
		batch = append(batch, changes.Change{Kind: "Service", Key: object.KeyOf(svc), New: svc, Revision: uint64(i + 1)})
	}
	if err := c.Apply(t.Context(), batch, 12); err != nil {
		t.Fatal(err)
	}
	return c
}

// leadShard leads a shard until stop is called.
func leadShard(t *testing.T, c *Controller, shard int) (stop func()) {
	t.Helper()
	return kittest.Run(t, fmt.Sprint("shard ", shard), func(ctx context.Context) error {
		c.Lead(metadata.AppendToOutgoingContext(ctx, "portolan-fence", "default/l=1"), shard)
		return nil
	})
}

// ofShard returns the names of the services of a shard.
func ofShard(shard int) map[string]bool {
	all := map[string]bool{}
	for i := range 12 {
		if name := fmt.Sprint("web-", i); spec.ControllerShard(object.Name{Namespace: "default", Name: name}, 4) == shard {
			all[name] = true
		}
	}
	return all
}

func TestOnlyServicesOfHeldShardsAreWritten(t *testing.T) {
	r := registrytest.New(t)
	c := sharded(t, r, time.Millisecond)
	want := ofShard(1)
	if n := c.Resync(); n != 0 {
		t.Errorf("%d services are due before a shard is held", n)
	}
	stop := leadShard(t, c, 1)
	kittest.Eventually(t, "the slices of shard 1", func() error {
		got := map[string]bool{}
		for _, s := range registrytest.All[*corev1.EndpointSlice](r) {
			got[s.GetMetadata().GetLabels()[object.LabelServiceName]] = true
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("slices of %v, want %v", got, want)
		}
		return nil
	})
	if n := c.Resync(); n != len(want) {
		t.Errorf("%d services are due again, want %d", n, len(want))
	}
	stop()
	if n := c.Pending(); n != 0 {
		t.Errorf("%d services wait after the shard was given up", n)
	}
}

func TestNothingThatWaitsInALostShardIsWritten(t *testing.T) {
	r := registrytest.New(t)
	c := sharded(t, r, time.Hour)
	stop := leadShard(t, c, 2)
	kittest.Eventually(t, "the services to wait", func() error {
		if c.Pending() == 0 {
			return errors.New("none waits")
		}
		return nil
	})
	stop()
	svc := service()
	for name := range ofShard(2) {
		svc.Metadata.Name = name
	}
	if err := c.Apply(t.Context(), []changes.Change{{Kind: "Service", Key: object.KeyOf(svc), New: svc, Revision: 13}}, 13); err != nil {
		t.Fatal(err)
	}
	if n := c.Pending(); n != 0 {
		t.Errorf("%d services wait in a lost shard", n)
	}
	if calls := r.Calls(); len(calls) > 0 {
		t.Errorf("writes %v", calls)
	}
}

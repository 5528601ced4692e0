package endpointctl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	corev1 "portolan.dev/api/core/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl"
	"portolan.dev/endpointctl/internal/registrytest"
)

// sharing is a replica with shards.
type sharing struct {
	endpointsv1.EndpointControllerServiceClient
	host app.Host
	stop func()
}

func startSharing(t *testing.T, r *registrytest.Registry, addr, name string, shards int) *sharing {
	t.Helper()
	var cfg endpointctl.Config
	config.Defaults(&cfg)
	cfg.Addr, cfg.Registry, cfg.NATSPrefix, cfg.NodeGrace = "127.0.0.1:0", addr, changestest.Prefix, time.Second
	cfg.LegacyInterval, cfg.Identity, cfg.LeaseDuration, cfg.Shards = 0, name, 4*time.Second, shards
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	s := &sharing{host: kittest.Host(t, rpc.TCP(), r.Log.URL())}
	s.EndpointControllerServiceClient, s.stop = startOn(t, cfg, s.host)
	return s
}

// waitFor waits until the status of a replica is as wanted.
func (s *sharing) waitFor(t *testing.T, what string, wanted func(*endpointsv1.GetStatusResponse) bool) *endpointsv1.GetStatusResponse {
	t.Helper()
	var now *endpointsv1.GetStatusResponse
	kittest.Eventually(t, what, func() (err error) {
		if now, err = s.GetStatus(t.Context(), &endpointsv1.GetStatusRequest{}); err == nil && !wanted(now) {
			err = fmt.Errorf("status %v", now)
		}
		return err
	})
	return now
}

func holds(n int) func(*endpointsv1.GetStatusResponse) bool {
	return func(s *endpointsv1.GetStatusResponse) bool { return len(s.GetHeldShards()) == n }
}

func TestReplicasShareServices(t *testing.T) {
	r := registrytest.New(t)
	r.Put(node("n1", "a", yes), node("n2", "b", yes))
	var want []string
	for i := range 12 {
		name := fmt.Sprint("web-", i)
		r.Put(service(name), pod(name, name, fmt.Sprint("10.0.0.", i+1), true))
		want = append(want, fmt.Sprintf("slice %s 9376: 10.0.0.%d", name, i+1), fmt.Sprintf("endpoints %s: 10.0.0.%d", name, i+1))
	}
	addr := r.Serve(t)
	a := startSharing(t, r, addr, "a", 4)
	a.waitFor(t, "the first to hold all", holds(4))
	wantObjects(t, "all endpoints", r, want...)
	b := startSharing(t, r, addr, "b", 4)
	ofB := b.waitFor(t, "the second to hold half", holds(2))
	ofA := a.waitFor(t, "the first to hold half", holds(2))
	if both := slices.Sorted(slices.Values(append(ofA.GetHeldShards(), ofB.GetHeldShards()...))); !slices.Equal(both, []uint32{0, 1, 2, 3}) {
		t.Errorf("they hold %v and %v", ofA.GetHeldShards(), ofB.GetHeldShards())
	}
	if !ofA.GetLeader() || ofA.GetEpoch() == 0 || ofB.GetLeader() || ofB.GetShards() != 4 {
		t.Errorf("status %v and %v, want the first to lead: it keeps shard 0", ofA, ofB)
	}
	if notes := b.host.Health.Notes(); b.host.Health.Ready() != nil || !slices.Equal(notes, []string{"shards: holds 2, 3 of 4"}) {
		t.Errorf("the second is ready: %v, and says %q", b.host.Health.Ready(), notes)
	}
	// The holder of shard 0 marks silent nodes, and the holders of all shards change the slices.
	heartbeats(t, r, "n2")
	for i := range want {
		want[i] = strings.Replace(want[i], ": 10", ": !10", 1)
	}
	wantObjects(t, "the pods of the silent node to be out", r, want...)
	if err := testutil.GatherAndCompare(b.host.Metrics, strings.NewReader(`
# HELP portolan_endpointctl_silent_nodes Nodes without heartbeats for longer than the grace period, according to the leader.
# TYPE portolan_endpointctl_silent_nodes gauge
portolan_endpointctl_silent_nodes 0
# HELP portolan_endpointctl_held_shards Shards that this replica holds.
# TYPE portolan_endpointctl_held_shards gauge
portolan_endpointctl_held_shards 2
# HELP portolan_endpointctl_shard_moves_total Moves of shards: taken by this replica, given-up by it, or lost because the lease could not be renewed.
# TYPE portolan_endpointctl_shard_moves_total counter
portolan_endpointctl_shard_moves_total{move="given-up"} 0
portolan_endpointctl_shard_moves_total{move="lost"} 0
portolan_endpointctl_shard_moves_total{move="taken"} 2
`), "portolan_endpointctl_silent_nodes", "portolan_endpointctl_held_shards", "portolan_endpointctl_shard_moves_total"); err != nil {
		t.Error(err)
	}
	resync, err := b.Resync(t.Context(), &endpointsv1.ResyncRequest{})
	if err != nil || resync.GetServices() == 0 || resync.GetServices() >= 12 {
		t.Errorf("a resync of the second: %v, %v; want its services only", resync, err)
	}
}

func TestAReplicaWithAnotherNumberOfShardsWaits(t *testing.T) {
	r := registrytest.New(t)
	r.Put(node("n1", "a", yes), service("web"), pod("p1", "web", "10.0.0.1", true))
	addr := r.Serve(t)
	a := startSharing(t, r, addr, "a", 1)
	a.waitFor(t, "the first to lead", (*endpointsv1.GetStatusResponse).GetLeader)
	b := startSharing(t, r, addr, "b", 4)
	waits := b.waitFor(t, "the second to wait", func(s *endpointsv1.GetStatusResponse) bool { return s.GetWaits() != "" }).GetWaits()
	for _, part := range []string{"-shards is 4 here", "default/endpointctl has 1", "set -shards to the same number on all replicas"} {
		if !strings.Contains(waits, part) {
			t.Errorf("it waits because %q, which lacks %q", waits, part)
		}
	}
	if warnings := b.host.Health.Warnings(); b.host.Health.Ready() != nil || !slices.Equal(warnings, []string{"shards: " + waits}) {
		t.Errorf("it is ready: %v, and warns of %q", b.host.Health.Ready(), warnings)
	}
	a.stop()
	b.waitFor(t, "the second to hold all shards", func(s *endpointsv1.GetStatusResponse) bool { return len(s.GetHeldShards()) == 4 && s.GetWaits() == "" })
	if warnings := b.host.Health.Warnings(); len(warnings) > 0 {
		t.Errorf("it still warns of %q", warnings)
	}
	r.Put(pod("p2", "web", "10.0.0.2", true))
	wantObjects(t, "a change under the second", r, "slice web 9376: 10.0.0.1 10.0.0.2", "endpoints web: 10.0.0.1 10.0.0.2")
	lease, _ := r.Log.Get(object.Key{Kind: "Lease", Namespace: "default", Name: "endpointctl-shard-3"}).(*corev1.Lease)
	if lease.GetSpec().GetHolderIdentity() != "b" || lease.GetSpec().GetShards() != 4 {
		t.Errorf("the Lease of shard 3 is %v", lease)
	}
}

func TestTheNumberOfShardsIsLimited(t *testing.T) {
	for shards, valid := range map[int]bool{-1: false, 0: false, 1: true, 64: true, 65: false} {
		var cfg endpointctl.Config
		config.Defaults(&cfg)
		cfg.Shards = shards
		if err := cfg.Validate(); (err == nil) != valid {
			t.Errorf("-shards %d: %v", shards, err)
		}
	}
}

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/program"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
)

// TestChangesReachFollowers follows changes all the way: API, store, relay, stream, follower.
func TestChangesReachFollowers(t *testing.T) {
	i, r := run(t)
	r.lease(t, "before", nil)
	host := kittest.Host(t, i.network, i.nats)
	var mu sync.Mutex
	seen := map[string]bool{}
	follower, err := changes.NewFollower(changes.FollowerConfig{
		Registry: r.ClientConn, NATS: kittest.NATSConn(t, i.nats), Kinds: []string{"Lease"}, Log: host.Log, Metrics: host.Metrics, Health: host.Health,
		Apply: func(_ context.Context, batch []changes.Change, _ uint64) error {
			mu.Lock()
			defer mu.Unlock()
			for _, change := range batch {
				if change.New != nil {
					seen[change.New.GetMetadata().GetName()] = true
				} else {
					delete(seen, change.Old.GetMetadata().GetName())
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "follower", follower.Run)
	want := func(names ...string) {
		t.Helper()
		kittest.Eventually(t, fmt.Sprintf("the follower has %v", names), func() error {
			mu.Lock()
			defer mu.Unlock()
			for _, name := range names {
				if !seen[name] {
					return fmt.Errorf("it has %v", seen)
				}
			}
			if len(seen) != len(names) {
				return fmt.Errorf("it has %v", seen)
			}
			return nil
		})
	}
	want("before")
	r.lease(t, "after", nil)
	want("before", "after")
	r.drop(t, "before")
	want("after")
}

func TestListChanges(t *testing.T) {
	_, r := run(t)
	first := r.lease(t, "a", nil).GetMetadata().GetResourceVersion()
	r.lease(t, "b", nil)
	r.drop(t, "a")
	answer, err := r.changes.ListChanges(within(t), &registryv1.ListChangesRequest{AfterRevision: first, Limit: 10})
	if err != nil || len(answer.GetChanges()) != 2 || answer.GetHeadRevision() != first+2 {
		t.Fatalf("changes = %v, %v", answer, err)
	}
	for n, change := range answer.GetChanges() {
		if change.GetRevision() != first+1+uint64(n) || change.GetObject().GetLease() == nil || change.GetTime() == nil {
			t.Errorf("change %d: %v", n, change)
		}
	}
	if deleted := answer.GetChanges()[1]; deleted.GetType() != registryv1.ChangeType_CHANGE_TYPE_DELETE || deleted.GetObject().GetLease().GetMetadata().GetName() != "a" {
		t.Errorf("the deletion: %v", deleted)
	}
	if _, err := r.changes.ListChanges(within(t), &registryv1.ListChangesRequest{AfterRevision: first, Epoch: "another"}); err == nil {
		t.Error("another epoch was accepted")
	}
}

func TestAgents(t *testing.T) {
	i, r := run(t)
	nc := kittest.NATSConn(t, i.nats)
	agents := registryv1.NewAgentServiceClient(r)
	kittest.Eventually(t, "the heartbeat is heard", func() error {
		beat := &nodeagentv1.Heartbeat{Node: "n1", AppliedRevision: 7, Time: timestamppb.Now()}
		if err := changes.PublishHeartbeat(nc, i.config.NATSPrefix, beat); err != nil {
			return err
		}
		answer, err := agents.ListAgents(within(t), &registryv1.ListAgentsRequest{})
		if err != nil {
			return err
		}
		if len(answer.GetAgents()) != 1 || !answer.GetAgents()[0].GetAlive() || answer.GetAgents()[0].GetHeartbeat().GetAppliedRevision() != 7 {
			return fmt.Errorf("agents: %v", answer)
		}
		return nil
	})
}

func TestDiscovery(t *testing.T) {
	_, r := run(t)
	svc := r.create(t, web("redis-master"))
	discovery := registryv1.NewDiscoveryServiceClient(r)
	env, err := discovery.RenderEnv(within(t), &registryv1.RenderEnvRequest{})
	if err != nil || env.GetVariables()["REDIS_MASTER_SERVICE_HOST"] != svc.GetSpec().GetClusterIp() {
		t.Errorf("environment = %v, %v", env, err)
	}
	// The ranges of node ports come from the allocator, because they may have grown.
	settings, err := discovery.GetSettings(within(t), &registryv1.GetSettingsRequest{})
	if err != nil || settings.GetStore() != "sqlite" || settings.GetServiceCidrs()[0] != "10.96.0.0/16" || settings.GetZone() != "cluster.local" ||
		settings.GetNodePortRange() != "30000-30049" {
		t.Errorf("settings = %v, %v", settings, err)
	}
}

// TestRestart checks that acknowledged writes exist after a restart, at the same revision.
func TestRestart(t *testing.T) {
	i, r := run(t)
	r.create(t, web("web"))
	want := r.everything(t)
	r.stop()
	got := i.start().everything(t)
	if len(got) != len(want) {
		t.Errorf("%d objects, before the restart %d", len(got), len(want))
	}
}

// TestOldNATSAtTheStart checks that a registry does not start at a NATS server that is too old for the
// change stream, and that the error has the version and the remedy.
func TestOldNATSAtTheStart(t *testing.T) {
	i := install(t)
	i.nats = kittest.NATSOfVersion(t, i.nats, "2.9.10")
	_, err := program.New(t.Context(), i.config, kittest.Host(t, i.network, i.nats))
	if !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), "version 2.9.10") || !strings.Contains(err.Error(), "2.10 or later") {
		t.Errorf("the registry starts, or does not say why not: %v", err)
	}
}

// TestStreamOfAnotherInstallation checks that a registry is ready, and warns, if the change stream belongs
// to another installation.
func TestStreamOfAnotherInstallation(t *testing.T) {
	i, first := run(t)
	kittest.Eventually(t, "the first one's stream", func() error { return noWarning(first) })
	i.config.Store = "sqlite:" + t.TempDir()
	second := i.start()
	kittest.Eventually(t, "a warning", func() error {
		if warnings := strings.Join(second.health.Warnings(), "\n"); !strings.Contains(warnings, "belongs to another installation") {
			return fmt.Errorf("warnings %q", warnings)
		}
		return nil
	})
	if err := second.health.Ready(); err != nil {
		t.Errorf("the second registry is not ready: %v", err)
	}
	if err := noWarning(first); err != nil {
		t.Error(err)
	}
}

func noWarning(r *replica) error {
	if warnings := r.health.Warnings(); len(warnings) > 0 {
		return errors.New(strings.Join(warnings, "\n"))
	}
	return nil
}

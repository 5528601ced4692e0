package registry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestChangesFromNATSAreVerified writes through the replicas of a registry while a follower compares
// the changes that it gets from NATS with the log, at one replica, without interruption. Objects
// have maps, which are encoded in a random order, some are private, and some are deleted.
// No change may seem forged. Then a client of NATS forges one, and the follower must notice it.
func TestChangesFromNATSAreVerified(t *testing.T) {
	for name, test := range map[string]struct {
		store    func(t *testing.T) func(*registry.Config)
		replicas int
	}{
		"sqlite": {store: func(*testing.T) func(*registry.Config) { return func(*registry.Config) {} }, replicas: 1},
		"postgres": {store: func(t *testing.T) func(*registry.Config) {
			dsn := kittest.Postgres(t)
			return func(c *registry.Config) { c.Store = dsn }
		}, replicas: 2},
	} {
		t.Run(name, func(t *testing.T) {
			i := install(t, test.store(t))
			var replicas []*replica
			for range test.replicas {
				replicas = append(replicas, i.start())
			}
			asked := replicas[len(replicas)-1]
			metrics := prometheus.NewRegistry()
			follower, err := changes.NewFollower(changes.FollowerConfig{
				Registry: asked, NATS: kittest.NATSConn(t, i.nats), Log: kittest.Logger(t), Metrics: metrics, VerifyEvery: 5 * time.Millisecond,
				Apply: func(context.Context, []changes.Change, uint64) error { return nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			kittest.Run(t, "follower", follower.Run)
			for n := range 40 {
				writeAll(t, replicas[n%len(replicas)], fmt.Sprintf("x%d", n))
			}
			head, err := asked.changes.GetHead(within(t), &registryv1.GetHeadRequest{})
			if err != nil {
				t.Fatal(err)
			}
			kittest.Eventually(t, "the follower at the head", func() error {
				if got := follower.Revision(); got < head.GetRevision() {
					return fmt.Errorf("it is at %d of %d", got, head.GetRevision())
				}
				return follower.Check(within(t))
			})
			if forged := forgedChanges(t, metrics); forged != 0 {
				t.Fatalf("%v true changes were taken for forged ones", forged)
			}
			nc := kittest.NATSConn(t, i.nats)
			kittest.Eventually(t, "the report of a forged change", func() error {
				if forgedChanges(t, metrics) == 0 {
					return errors.Join(errors.New("none is reported"), forge(within(t), nc, asked))
				}
				return nil
			})
			kittest.Eventually(t, "the repair of the view", func() error {
				if follower.View().Get(object.Key{Kind: "Lease", Name: "forged"}) != nil {
					return errors.New("it has the forged object")
				}
				return nil
			})
		})
	}
}

// writeAll writes objects of several kinds, changes them and deletes one.
func writeAll(t *testing.T, r *replica, name string) {
	t.Helper()
	labels := map[string]string{}
	for n := range 8 {
		labels[fmt.Sprintf("label-%d", n)] = name
	}
	lease := r.lease(t, name, labels)
	lease.Metadata.Annotations = labels
	if _, err := r.leases.UpdateLease(within(t), &registryv1.UpdateLeaseRequest{Lease: lease}); err != nil {
		t.Fatal(err)
	}
	r.drop(t, name)
	svc := r.create(t, web(name, func(s *corev1.Service) { s.Metadata.Labels, s.Spec.ClusterIp = labels, "None" }))
	if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: svc.GetMetadata().GetName()}); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{nil, {"serve"}} {
		pod := &corev1.Pod{
			Metadata: &corev1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, len(command)), Labels: labels},
			Spec:     &corev1.PodSpec{NodeName: "n1", Containers: []*corev1.Container{{Name: "main", Command: command}}},
		}
		if _, err := r.pods.CreatePod(within(t), &registryv1.CreatePodRequest{Pod: pod}); err != nil {
			t.Fatal(err)
		}
	}
}

// forge publishes a change that the registry does not have as the next one, as the NATS server
// would.
func forge(ctx context.Context, nc *nats.Conn, r *replica) error {
	head, err := r.changes.GetHead(ctx, &registryv1.GetHeadRequest{})
	if err != nil {
		return err
	}
	next := head.GetRevision() + 1
	change := &registryv1.Change{
		Revision: next, Type: registryv1.ChangeType_CHANGE_TYPE_PUT,
		Object: object.Wrap(&corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "forged", ResourceVersion: next}}),
	}
	payload, err := change.MarshalVT()
	if err != nil {
		return err
	}
	const subject = "chg.Lease._.forged"
	return nc.PublishMsg(&nats.Msg{Subject: "portolan.rep." + subject, Data: payload, Header: nats.Header{
		"Portolan-Epoch": {head.GetEpoch()}, "Portolan-Encoding": {"1"}, "Nats-Stream": {"portolan_CHG"}, "Nats-Subject": {"portolan." + subject}, "Nats-Sequence": {fmt.Sprint(next)},
	}})
}

func forgedChanges(t *testing.T, metrics *prometheus.Registry) (sum float64) {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "portolan_changes_forged_total" {
			for _, series := range family.GetMetric() {
				sum += series.GetCounter().GetValue()
			}
		}
	}
	return sum
}

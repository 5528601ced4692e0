package registry_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
)

// TestReplicas runs two registries on one Postgres.
func TestReplicas(t *testing.T) {
	dsn := kittest.Postgres(t)
	i := install(t, func(c *registry.Config) { c.Store = dsn })
	a, b := i.start(), i.start()

	t.Run("a write on one is read on the other", func(t *testing.T) {
		at := a.lease(t, "one", nil).GetMetadata().GetResourceVersion()
		if _, err := b.leases.GetLease(within(t), &registryv1.GetLeaseRequest{Name: "one", MinRevision: at}); err != nil {
			t.Error(err)
		}
	})
	t.Run("an update on one is of the version read on the other", func(t *testing.T) {
		lease := a.lease(t, "two", nil)
		for n := range 10 {
			r := []*replica{a, b}[n%2]
			lease.Metadata.Labels = map[string]string{"n": fmt.Sprint(n)}
			answer, err := r.leases.UpdateLease(within(t), &registryv1.UpdateLeaseRequest{Lease: lease})
			if err != nil {
				t.Fatal(err)
			}
			lease = answer.GetLease()
		}
		if _, err := b.leases.DeleteLease(within(t), &registryv1.DeleteLeaseRequest{Name: "two", ResourceVersion: lease.GetMetadata().GetResourceVersion()}); err != nil {
			t.Error(err)
		}
		if _, err := a.leases.CreateLease(within(t), &registryv1.CreateLeaseRequest{Lease: &corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "two"}}}); err != nil {
			t.Errorf("create on one of what was deleted on the other: %v", err)
		}
	})
	t.Run("a namespace made on one is used on the other", func(t *testing.T) {
		for n := range 5 {
			name := fmt.Sprintf("n%d", n)
			if _, err := a.namespaces.CreateNamespace(within(t), &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: name}}}); err != nil {
				t.Fatal(err)
			}
			b.create(t, web("web", func(s *corev1.Service) { s.Metadata.Namespace, s.Spec.ClusterIp = name, "None" }))
		}
	})
	t.Run("a watch on one sees the writes of both", func(t *testing.T) {
		head, err := a.changes.GetHead(within(t), &registryv1.GetHeadRequest{})
		if err != nil {
			t.Fatal(err)
		}
		w := b.watch(t, &registryv1.WatchLeasesRequest{FromRevision: head.GetRevision()})
		var want []string
		for n := range 6 {
			name := fmt.Sprintf("w%d", n)
			[]*replica{a, b}[n%2].lease(t, name, nil)
			want = append(want, "PUT "+name)
		}
		w.want(want...)
	})
	t.Run("a list begun on one goes on with the other", func(t *testing.T) {
		for n := range 7 {
			a.lease(t, fmt.Sprintf("page-%d", n), nil)
		}
		at := a.lease(t, "page-7", nil).GetMetadata().GetResourceVersion()
		for n, pair := range [][2]*replica{{a, b}, {b, a}} {
			first, err := pair[0].leases.ListLeases(within(t), &registryv1.ListLeasesRequest{PageSize: 3, MinRevision: at})
			if err != nil {
				t.Fatal(err)
			}
			want, _ := pair[0].restOfList(t, first)
			next := pair[1].lease(t, fmt.Sprintf("page-0-%d", n), nil)
			pair[0].relabel(t, "page-5", map[string]string{"n": fmt.Sprint(n)})
			pair[1].drop(t, fmt.Sprintf("page-%d", 6-n))
			if got, revision := pair[1].restOfList(t, first); !slices.Equal(got, want) || revision >= next.GetMetadata().GetResourceVersion() {
				t.Errorf("the pages have %v of revision %d, want %v", got, revision, want)
			}
			at = next.GetMetadata().GetResourceVersion()
		}
	})
	t.Run("both create the same names", func(t *testing.T) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := map[string]int{}
		for _, r := range []*replica{a, b, a, b} {
			wg.Go(func() {
				for n := range 20 {
					name := fmt.Sprintf("race-%d", n)
					_, err := r.leases.CreateLease(within(t), &registryv1.CreateLeaseRequest{Lease: &corev1.Lease{Metadata: &corev1.ObjectMeta{Name: name}}})
					switch {
					case err == nil:
						mu.Lock()
						won[name]++
						mu.Unlock()
					case !apierr.IsAlreadyExists(err):
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for n := range 20 {
			if name := fmt.Sprintf("race-%d", n); won[name] != 1 {
				t.Errorf("%s was created %d times", name, won[name])
			}
		}
	})
	t.Run("a namespace deleted on one goes on both", func(t *testing.T) {
		if _, err := a.namespaces.DeleteNamespace(within(t), &registryv1.DeleteNamespaceRequest{Name: "n0"}); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*replica{a, b} {
			kittest.Eventually(t, "the namespace goes", func() error {
				_, err := r.namespaces.GetNamespace(within(t), &registryv1.GetNamespaceRequest{Name: "n0"})
				if !apierr.IsNotFound(err) {
					return fmt.Errorf("get: %w", err)
				}
				return nil
			})
		}
	})
}

// TestPostgresAway stops the database under a running registry. Reads must continue, writes must
// fail with a retry delay, and writes must succeed again without a restart.
func TestPostgresAway(t *testing.T) {
	cluster := kittest.NewCluster(t)
	i := install(t, func(c *registry.Config) { c.Store = cluster.Database(t) })
	r := i.start()
	r.create(t, web("web"))
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.services.GetService(within(t), &registryv1.GetServiceRequest{Name: "web"}); err != nil {
		t.Errorf("get without the database: %v", err)
	}
	_, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("other")})
	if _, retry := apierr.RetryAfter(err); !apierr.IsUnavailable(err) || !retry {
		t.Errorf("create without the database: %v", err)
	}
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "writes succeed again", func() error {
		_, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("third")})
		if apierr.IsAlreadyExists(err) {
			return nil // an earlier attempt with an unknown outcome succeeded
		}
		return err
	})
	kittest.Eventually(t, "reads see them", func() error {
		_, err := r.services.GetService(within(t), &registryv1.GetServiceRequest{Name: "third"})
		return err
	})
}

package registry_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// quotas parses namespace-quotas.
func quotas(t *testing.T, texts ...string) func(*registry.Config) {
	return func(c *registry.Config) {
		for _, text := range texts {
			c.NamespaceQuotas = append(c.NamespaceQuotas, registry.NamespaceQuota{})
			if err := c.NamespaceQuotas[len(c.NamespaceQuotas)-1].UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// overQuota checks that err names a limit, its use and its owner.
func overQuota(t *testing.T, what string, err error, want string) {
	t.Helper()
	if apierr.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want RESOURCE_EXHAUSTED with %q", what, err, want)
	}
}

// TestLastPlaceOfANamespaceIsTakenOnce lets 100 clients create the last pod that a namespace may
// have, on two replicas if the store allows two.
func TestLastPlaceOfANamespaceIsTakenOnce(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			i := install(t, quotas(t, "default:pods=3"))
			if replicas > 1 {
				i.config.Store = kittest.Postgres(t)
			}
			all := []*replica{i.start()}
			for range replicas - 1 {
				all = append(all, i.start())
			}
			create := func(n int) error {
				_, err := all[n%replicas].pods.CreatePod(within(t), &registryv1.CreatePodRequest{Pod: &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: fmt.Sprint("p", n)}}})
				return err
			}
			for n := range 2 {
				if err := create(n); err != nil {
					t.Fatal(err)
				}
			}
			errs := make([]error, 100)
			var wg sync.WaitGroup
			for n := range errs {
				wg.Go(func() { errs[n] = create(2 + n) })
			}
			wg.Wait()
			created := 0
			for _, err := range errs {
				if err == nil {
					created++
					continue
				}
				overQuota(t, "a pod too many", err, "quota of namespace default: pods: 3 of 3 are used")
			}
			if created != 1 {
				t.Errorf("%d of 100 got the last place", created)
			}
			if _, err := all[0].pods.DeletePod(within(t), &registryv1.DeletePodRequest{Name: "p0"}); err != nil {
				t.Fatal(err)
			}
			if err := create(1000 * replicas); err != nil {
				t.Errorf("the place of a deleted pod: %v", err)
			}
		})
	}
}

// TestQuotasOfServices checks the resources of services, which change with updates, also in dry
// runs and after a restart.
func TestQuotasOfServices(t *testing.T) {
	i, r := run(t, quotas(t, "default:services=3", "default:services.nodeports=3", "*:services.loadbalancers=1"))
	typed := func(kind corev1.ServiceType) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Type = kind }
	}
	balanced, plain := typed(corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER), typed(corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP)
	try := func(svc *corev1.Service, dryRun bool) error {
		_, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: svc, DryRun: dryRun})
		return err
	}
	first := r.create(t, web("first", balanced))
	overQuota(t, "a second load balancer", try(web("second", balanced), false), "services.loadbalancers: 1 of 1 are used")
	second := r.create(t, web("second", plain))
	second.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
	_, err := r.services.UpdateService(within(t), &registryv1.UpdateServiceRequest{Service: second})
	overQuota(t, "an update to a load balancer", err, "services.loadbalancers")
	first.Spec.Type = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP
	r.update(t, first)
	second = r.update(t, second)

	second.Spec.Ports = append(second.Spec.Ports, &corev1.ServicePort{Name: "b", Port: 81}, &corev1.ServicePort{Name: "c", Port: 82}, &corev1.ServicePort{Name: "d", Port: 83})
	_, err = r.services.UpdateService(within(t), &registryv1.UpdateServiceRequest{Service: second})
	overQuota(t, "a fourth node port", err, "services.nodeports: 1 of 3 are used, and the write takes 3 more")

	r.create(t, web("third"))
	overQuota(t, "a fourth service", try(web("fourth"), false), "services: 3 of 3 are used")
	overQuota(t, "a dry run of it", try(web("fourth"), true), "services: 3 of 3 are used")
	kittest.Eventually(t, "refused services leave no values", func() error {
		if used := i.allocator.Used(); used != 4 { // three virtual IPs and a node port
			return fmt.Errorf("%d values are allocated, want 4", used)
		}
		return nil
	})
	r.stop()
	r = i.start()
	overQuota(t, "a fourth service after a restart", try(web("fourth"), false), "services: 3 of 3 are used")
	if _, err := r.namespaces.CreateNamespace(within(t), &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "other"}}}); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		r.create(t, web(fmt.Sprint("s", n), func(s *corev1.Service) { s.Metadata.Namespace = "other" }))
	}
}

// TestPodsOfAWorkloadAreLimited checks that the pods of each workload's identity are counted.
func TestPodsOfAWorkloadAreLimited(t *testing.T) {
	_, r := run(t, func(c *registry.Config) { c.MaxPodsPerWorkload = 2 })
	create := func(name, owner string) error {
		_, err := r.pods.CreatePod(within(t), &registryv1.CreatePodRequest{Pod: &corev1.Pod{Metadata: &corev1.ObjectMeta{
			Name: name, Annotations: map[string]string{object.AnnotationWorkload: owner},
		}, Spec: &corev1.PodSpec{NodeName: "n1"}}})
		return err
	}
	for n := range 2 {
		if err := create(fmt.Sprint("p", n), "workload/n1/default"); err != nil {
			t.Fatal(err)
		}
	}
	overQuota(t, "a third pod", create("p2", "workload/n1/default"), "quota of workload/n1/default: pods: 2 of 2 are used")
	if err := create("p2", "workload/n1/shop"); err != nil {
		t.Errorf("a pod of another workload: %v", err)
	}
}

// TestServicesOfARegistrarAreLimited checks that the services and the namespaces that one registrar has
// created are counted, each for itself, and that a deletion makes room.
func TestServicesOfARegistrarAreLimited(t *testing.T) {
	i, r := run(t, func(c *registry.Config) { c.MaxServicesPerRegistrar = 2 })
	signed := func(name, owner string) *corev1.ObjectMeta {
		return &corev1.ObjectMeta{Name: name, Annotations: map[string]string{object.AnnotationWorkload: owner}}
	}
	service := func(name, owner string) error {
		_, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web(name, func(s *corev1.Service) { s.Metadata = signed(name, owner) })})
		return err
	}
	namespace := func(name, owner string) error {
		_, err := r.namespaces.CreateNamespace(within(t), &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: signed(name, owner)}})
		return err
	}
	for n := range 2 {
		if err := service(fmt.Sprint("s", n), "registrar/n1"); err != nil {
			t.Fatal(err)
		}
		if err := namespace(fmt.Sprint("n", n), "registrar/n1"); err != nil {
			t.Fatal(err)
		}
	}
	overQuota(t, "a third service", service("s2", "registrar/n1"), "quota of registrar/n1: services: 2 of 2 are used, and the write takes 1 more: delete some first, or raise the registry's max-services-per-registrar")
	overQuota(t, "a third namespace", namespace("n2", "registrar/n1"), "quota of registrar/n1: namespaces: 2 of 2 are used")
	if err := service("s2", "registrar/n2"); err != nil {
		t.Errorf("a service of another registrar: %v", err)
	}
	if err := service("s3", ""); err != nil {
		t.Errorf("a service of an operator: %v", err)
	}
	r.stop()
	r = i.start() // it counts the objects in the store
	overQuota(t, "a third service after a restart", service("s4", "registrar/n1"), "services: 2 of 2 are used")
	if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "s0"}); err != nil {
		t.Fatal(err)
	}
	if err := service("s4", "registrar/n1"); err != nil {
		t.Errorf("a service in the place of a deleted one: %v", err)
	}
}

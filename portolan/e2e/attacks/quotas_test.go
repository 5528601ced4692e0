package attacks

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
)

// TestNamespaceCannotTakeEverything lets 100 clients at once create services with node ports in a
// namespace that has place for three of them. Another namespace is not affected.
func TestNamespaceCannotTakeEverything(t *testing.T) {
	i := labtest.Install(t, labtest.Options{
		Secured: true, Flags: map[string][]string{"registry": {"-namespace-quotas", "default:services=10,default:services.nodeports=3"}},
	})
	services := registryv1.NewServiceServiceClient(i.Conn)
	create := func(name, namespace string, kind corev1.ServiceType) error {
		_, err := services.CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
			Metadata: &corev1.ObjectMeta{Name: name, Namespace: namespace},
			Spec:     &corev1.ServiceSpec{Type: kind, Ports: []*corev1.ServicePort{{Port: 80}}},
		}})
		return err
	}
	errs := make([]error, 100)
	var wg sync.WaitGroup
	for n := range errs {
		wg.Go(func() { errs[n] = create(fmt.Sprint("s", n), "default", corev1.ServiceType_SERVICE_TYPE_NODE_PORT) })
	}
	wg.Wait()
	created := 0
	for _, err := range errs {
		switch {
		case err == nil:
			created++
		case status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "quota of namespace default: services.nodeports: 3 of 3 are used"):
			t.Errorf("a service beyond the quota: %v", err)
		}
	}
	if created != 3 {
		t.Errorf("%d services with node ports were created, want 3", created)
	}
	if err := create("plain", "default", corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP); err != nil {
		t.Errorf("a service without node ports: %v", err)
	}
	if _, err := registryv1.NewNamespaceServiceClient(i.Conn).CreateNamespace(t.Context(), &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{
		Metadata: &corev1.ObjectMeta{Name: "other"},
	}}); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		if err := create(fmt.Sprint("s", n), "other", corev1.ServiceType_SERVICE_TYPE_NODE_PORT); err != nil {
			t.Errorf("a service of another namespace: %v", err)
		}
	}
}

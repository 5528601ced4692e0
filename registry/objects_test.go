package registry_test

import (
	"testing"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
)

func TestLifeOfAService(t *testing.T) {
	i, r := run(t)
	created := r.create(t, web("web"))
	meta := created.GetMetadata()
	if meta.GetUid() == "" || meta.GetResourceVersion() == 0 || meta.GetGeneration() != 1 || meta.GetCreationTimestamp() == nil || meta.GetNamespace() != "default" {
		t.Errorf("metadata is incomplete: %v", meta)
	}
	if ip := created.GetSpec().GetClusterIp(); ip != "10.96.0.1" || len(created.GetSpec().GetClusterIps()) != 1 {
		t.Errorf("cluster IP = %q, %v", ip, created.GetSpec().GetClusterIps())
	}
	got, err := r.services.GetService(within(t), &registryv1.GetServiceRequest{Name: "web"})
	if err != nil || !got.GetService().EqualVT(created) {
		t.Errorf("get = %v, %v; want what create returned:\n%v", got, err, created)
	}
	changed := created.CloneVT()
	changed.Spec.Ports[0].Port = 8080
	updated := r.update(t, changed)
	if m := updated.GetMetadata(); m.GetGeneration() != 2 || m.GetResourceVersion() <= meta.GetResourceVersion() || m.GetUid() != meta.GetUid() {
		t.Errorf("metadata after the update: %v", m)
	}
	if _, err := r.services.UpdateService(within(t), &registryv1.UpdateServiceRequest{Service: changed}); !apierr.IsConflict(err) {
		t.Errorf("an update of the version before: %v, want a conflict", err)
	}
	if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.services.GetService(within(t), &registryv1.GetServiceRequest{Name: "web"}); !apierr.IsNotFound(err) {
		t.Errorf("get after delete: %v", err)
	}
	if n := i.allocator.Used(); n != 0 {
		t.Errorf("%d values are still allocated", n)
	}
}

func TestStatusAndSpecKeepOutOfEachOthersWay(t *testing.T) {
	_, r := run(t)
	svc := r.create(t, web("lb", func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
		s.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "192.0.2.9"}}}}
	}))
	if svc.GetStatus().GetLoadBalancer() != nil {
		t.Errorf("a new service has a status of the client's making: %v", svc.GetStatus())
	}
	status := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "lb", Labels: map[string]string{"no": "thing"}},
		Status:   &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "192.0.2.1"}}}},
	}
	answer, err := r.services.UpdateServiceStatus(within(t), &registryv1.UpdateServiceStatusRequest{Service: status})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.GetService(); got.GetStatus().GetLoadBalancer().GetIngress()[0].GetIp() != "192.0.2.1" || len(got.GetSpec().GetPorts()) != 1 ||
		len(got.GetMetadata().GetLabels()) != 0 || got.GetMetadata().GetGeneration() != 1 {
		t.Errorf("after the status update: %v", got)
	}
	svc.Metadata.ResourceVersion = 0
	svc.Metadata.Labels = map[string]string{"a": "b"}
	if got := r.update(t, svc); got.GetStatus().GetLoadBalancer().GetIngress()[0].GetIp() != "192.0.2.1" || got.GetMetadata().GetGeneration() != 1 {
		t.Errorf("the update of a label touched the status or the generation: %v", got)
	}
}

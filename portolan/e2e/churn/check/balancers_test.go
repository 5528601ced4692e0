package check

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// balanced returns a service of type LoadBalancer with an address, or without one.
func balanced(name, ip, reason string) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{}},
		Spec:     &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER},
		Status:   &corev1.ServiceStatus{Conditions: []*corev1.Condition{{Type: object.ConditionLoadBalancer, Reason: reason}}},
	}
	if ip != "" {
		svc.Status.LoadBalancer = &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: ip}}}
	}
	return svc
}

func TestBalancersAreSettled(t *testing.T) {
	const ip = "203.0.113.1"
	requests := func(svc *corev1.Service) *corev1.Service {
		svc.Metadata.Annotations[object.AnnotationBalancerIPs] = ip
		return svc
	}
	deleted := balanced("web", ip, "Ensured")
	deleted.Metadata.DeletionTimestamp = timestamppb.Now()
	for name, test := range map[string]struct {
		services []*corev1.Service
		want     string
	}{
		"an address":                             {[]*corev1.Service{balanced("web", ip, "Ensured")}, ""},
		"the requested address":                  {[]*corev1.Service{requests(balanced("web", ip, "Ensured"))}, ""},
		"another address than the requested one": {[]*corev1.Service{requests(balanced("web", "203.0.113.2", "Ensured"))}, "it has"},
		"the address of another one":             {[]*corev1.Service{requests(balanced("web", "", "Refused")), balanced("other", ip, "Ensured")}, ""},
		"an address that is free":                {[]*corev1.Service{requests(balanced("web", "", "Refused"))}, "it has"},
		"waiting":                                {[]*corev1.Service{balanced("web", "", "ProviderUnavailable")}, "the condition is ProviderUnavailable"},
		"being deleted":                          {[]*corev1.Service{deleted}, "is being deleted"},
		"another type":                           {[]*corev1.Service{{Metadata: &corev1.ObjectMeta{Name: "web"}, Spec: &corev1.ServiceSpec{}}}, ""},
	} {
		world := model.New()
		for _, svc := range test.services {
			world.Put(svc)
		}
		found, err := Balancers{}.Check(t.Context(), world)
		if err != nil || (len(found) > 0) != (test.want != "") || len(found) > 0 && !strings.Contains(found[0].Problem, test.want) {
			t.Errorf("%s: %v, %v; want %q", name, found, err, test.want)
		}
	}
}

package parity

import (
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// scene is the environment of one description: a namespace and its objects.
type scene struct {
	*testing.T
	lab       *labtest.Installation
	namespace string
}

var scenes atomic.Int64

func newScene(t *testing.T, lab *labtest.Installation) *scene {
	t.Helper()
	s := &scene{T: t, lab: lab, namespace: fmt.Sprintf("parity-%d", scenes.Add(1))}
	s.apply(&corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: s.namespace}})
	return s
}

func (s *scene) meta(name string) *corev1.ObjectMeta {
	return &corev1.ObjectMeta{Namespace: s.namespace, Name: name}
}

func (s *scene) apply(o object.Object) {
	s.Helper()
	if _, err := s.lab.Registry.Apply(s.Context(), o, false); err != nil {
		s.Fatalf("apply %s: %v", object.KeyOf(o), err)
	}
}

func (s *scene) services() registryv1.ServiceServiceClient {
	return registryv1.NewServiceServiceClient(s.lab.Conn)
}

func (s *scene) pods() registryv1.PodServiceClient { return registryv1.NewPodServiceClient(s.lab.Conn) }

// httpPort is the port of most services.
var httpPort = tcp("http", 80, 8080)

func tcp(name string, port, target int32) *corev1.ServicePort {
	return servicePort(name, port, target, corev1.Protocol_PROTOCOL_TCP)
}

func udp(name string, port, target int32) *corev1.ServicePort {
	return servicePort(name, port, target, corev1.Protocol_PROTOCOL_UDP)
}

func servicePort(name string, port, target int32, protocol corev1.Protocol) *corev1.ServicePort {
	return &corev1.ServicePort{
		Name: name, Port: port, Protocol: protocol, TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: target}},
	}
}

// named returns a port of a service that leads to the port of this name of each pod.
func named(name string, port int32, target string) *corev1.ServicePort {
	p := tcp(name, port, 0)
	p.TargetPort = &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: target}}
	return p
}

// service makes a service that selects the pods of its name, and returns it as stored.
func (s *scene) service(name string, change func(*corev1.ServiceSpec), ports ...*corev1.ServicePort) *corev1.Service {
	s.Helper()
	svc, err := s.tryService(name, change, ports...)
	if err != nil {
		s.Fatalf("create service %s: %v", name, err)
	}
	return svc
}

func (s *scene) tryService(name string, change func(*corev1.ServiceSpec), ports ...*corev1.ServicePort) (*corev1.Service, error) {
	if len(ports) == 0 {
		ports = []*corev1.ServicePort{httpPort}
	}
	svc := &corev1.Service{Metadata: s.meta(name), Spec: &corev1.ServiceSpec{Selector: map[string]string{"app": name}}}
	for _, p := range ports {
		svc.Spec.Ports = append(svc.Spec.Ports, p.CloneVT())
	}
	if change != nil {
		change(svc.GetSpec())
	}
	got, err := s.services().CreateService(s.Context(), &registryv1.CreateServiceRequest{Service: svc})
	return got.GetService(), err
}

// update changes a service and returns it as stored.
func (s *scene) update(name string, change func(*corev1.Service)) *corev1.Service {
	s.Helper()
	svc, err := s.tryUpdate(name, change)
	if err != nil {
		s.Fatalf("update service %s: %v", name, err)
	}
	return svc
}

func (s *scene) tryUpdate(name string, change func(*corev1.Service)) (*corev1.Service, error) {
	got, err := s.services().GetService(s.Context(), &registryv1.GetServiceRequest{Namespace: s.namespace, Name: name})
	if err != nil {
		return nil, err
	}
	svc := got.GetService()
	svc.Metadata.ResourceVersion = 0
	change(svc)
	updated, err := s.services().UpdateService(s.Context(), &registryv1.UpdateServiceRequest{Service: svc})
	return updated.GetService(), err
}

func (s *scene) deleteService(name string) {
	s.Helper()
	if _, err := s.services().DeleteService(s.Context(), &registryv1.DeleteServiceRequest{Namespace: s.namespace, Name: name}); err != nil {
		s.Fatalf("delete service %s: %v", name, err)
	}
}

// eventually waits for a condition.
func (s *scene) eventually(what string, cond func() error) {
	s.Helper()
	kittest.Eventually(s.T, what, cond)
}

// Changes of a service's spec.

func nodePort(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT }

func headless(spec *corev1.ServiceSpec) { spec.ClusterIp, spec.ClusterIps = "None", []string{"None"} }

func internalLocal(spec *corev1.ServiceSpec) {
	spec.InternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
}

func externalLocal(spec *corev1.ServiceSpec) {
	spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
}

func sticky(spec *corev1.ServiceSpec) {
	spec.SessionAffinity = corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP
}

// both returns a change that makes all given changes.
func both(changes ...func(*corev1.ServiceSpec)) func(*corev1.ServiceSpec) {
	return func(spec *corev1.ServiceSpec) {
		for _, change := range changes {
			change(spec)
		}
	}
}

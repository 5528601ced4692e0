package verifier

import (
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Trim removes the parts of an object that the verifier does not read. It keeps the identity, the age, the
// finalizers, the fields in which an object has allocated values or addresses, and the sharing key, which
// determines the owner of load-balancer addresses. That is a quarter of a usual service.
func Trim(o object.Object) {
	meta := object.MetaOf(o)
	annotations := trimmedAnnotations(o)
	meta.Labels, meta.Annotations, meta.ManagedFields = nil, annotations, nil
	switch o := o.(type) {
	case *corev1.Service:
		o.Spec, o.Status = trimmedSpec(o.GetSpec()), trimmedStatus(o.GetStatus())
	case *corev1.Pod:
		o.Spec, o.Status = nil, &corev1.PodStatus{PodIps: o.GetStatus().GetPodIps()}
	case *corev1.Node:
		o.Spec, o.Status = nil, &corev1.NodeStatus{Addresses: o.GetStatus().GetAddresses()}
	}
}

// trimmedAnnotations returns the annotation from which spec.OwnerOfAddresses computes the owner of a service's
// addresses. The result is nil for a service that does not share addresses, and for other objects.
func trimmedAnnotations(o object.Object) map[string]string {
	svc, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	if key := spec.SharingKey(svc); key != "" {
		return map[string]string{object.AnnotationBalancerShare: key}
	}
	return nil
}

// trimmedSpec returns a copy of a spec with the fields that serviceValues reads.
func trimmedSpec(full *corev1.ServiceSpec) *corev1.ServiceSpec {
	kept := &corev1.ServiceSpec{Type: full.GetType(), ClusterIps: full.GetClusterIps(), HealthCheckNodePort: full.GetHealthCheckNodePort()}
	if slices.ContainsFunc(full.GetPorts(), func(p *corev1.ServicePort) bool { return p.GetNodePort() != 0 }) {
		kept.Ports = full.GetPorts()
	}
	return kept
}

// trimmedStatus returns a copy of a status with the fields that balancerValues reads. An entry without an address
// stays as an empty one, so that the others keep their index. The result is nil if there are no entries.
func trimmedStatus(status *corev1.ServiceStatus) *corev1.ServiceStatus {
	all := status.GetLoadBalancer().GetIngress()
	if len(all) == 0 {
		return nil
	}
	kept := make([]*corev1.LoadBalancerIngress, len(all))
	for i, ingress := range all {
		kept[i] = &corev1.LoadBalancerIngress{Ip: ingress.GetIp()}
	}
	return &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: kept}}
}

package verifier

import (
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Trim removes the parts of an object that the verifier does not read. It keeps the identity, the age,
// and the fields in which an object has allocated values or addresses. That is a quarter of a usual
// service.
func Trim(o object.Object) {
	meta := object.MetaOf(o)
	meta.Labels, meta.Annotations, meta.ManagedFields = nil, nil, nil
	switch o := o.(type) {
	case *corev1.Service:
		o.Spec, o.Status = trimmedSpec(o.GetSpec()), nil
	case *corev1.Pod:
		o.Spec, o.Status = nil, &corev1.PodStatus{PodIps: o.GetStatus().GetPodIps()}
	case *corev1.Node:
		o.Spec, o.Status = nil, &corev1.NodeStatus{Addresses: o.GetStatus().GetAddresses()}
	}
}

// trimmedSpec returns a copy of a spec with the fields that serviceValues reads.
func trimmedSpec(spec *corev1.ServiceSpec) *corev1.ServiceSpec {
	kept := &corev1.ServiceSpec{Type: spec.GetType(), ClusterIps: spec.GetClusterIps(), HealthCheckNodePort: spec.GetHealthCheckNodePort()}
	if slices.ContainsFunc(spec.GetPorts(), func(p *corev1.ServicePort) bool { return p.GetNodePort() != 0 }) {
		kept.Ports = spec.GetPorts()
	}
	return kept
}

package spec

import (
	"fmt"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// ControllerLease is the default name of the Lease of the endpoint controller's replicas, in the
// namespace default. Other names that the controller may use begin with it and a hyphen.
const ControllerLease = "endpointctl"

// IsControllerLease reports whether a Lease belongs to the endpoint controller.
func IsControllerLease(lease *corev1.Lease) bool {
	meta := lease.GetMetadata()
	return meta.GetNamespace() == object.DefaultNamespace && IsControllerLeaseName(meta.GetName())
}

// IsControllerLeaseName reports whether the endpoint controller may have a Lease of this name.
func IsControllerLeaseName(name string) bool {
	return name == ControllerLease || strings.HasPrefix(name, ControllerLease+"-")
}

// BalancerLease is the default name of the Lease of lbctl's replicas, in the namespace default. Other
// names that lbctl may use begin with it and a hyphen.
const BalancerLease = "lbctl"

// IsBalancerLease reports whether a Lease belongs to lbctl.
func IsBalancerLease(lease *corev1.Lease) bool {
	meta := lease.GetMetadata()
	return meta.GetNamespace() == object.DefaultNamespace && IsBalancerLeaseName(meta.GetName())
}

// IsBalancerLeaseName reports whether lbctl may have a Lease of this name.
func IsBalancerLeaseName(name string) bool {
	return name == BalancerLease || strings.HasPrefix(name, BalancerLease+"-")
}

// managedByReserved is a value of object.LabelManagedBy that must not be used, because Kubernetes
// reserves it.
const managedByReserved = "controller"

// ControllerLabel returns the label that marks an object as written by the endpoint controller, and
// reports whether the object has it.
func ControllerLabel(o object.Object) (key, value string, ok bool) {
	switch o := o.(type) {
	case *corev1.EndpointSlice:
		value = o.GetMetadata().GetLabels()[object.LabelManagedBy]
		return object.LabelManagedBy, value, value == object.ManagedByController || value == object.ManagedByMirroring
	case *corev1.Endpoints:
		value = o.GetMetadata().GetLabels()[object.LabelEndpointsManagedBy]
		return object.LabelEndpointsManagedBy, value, value == object.ManagedByEndpoints
	default:
		return "", "", false
	}
}

// Warnings returns warnings for an object of any kind that a user writes with a label of a
// controller.
func Warnings(o object.Object) []string {
	if key, value, ok := ControllerLabel(o); ok {
		return []string{fmt.Sprintf("label %s=%s: the endpoint controller undoes changes as long as the service has a selector", key, value)}
	}
	if o.GetMetadata().GetLabels()[object.LabelManagedBy] == managedByReserved {
		return []string{fmt.Sprintf("label %s=%s: the value is reserved; use one of your own, such as \"staff\"", object.LabelManagedBy, managedByReserved)}
	}
	return nil
}

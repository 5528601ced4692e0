package spec

import (
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

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

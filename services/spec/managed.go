package spec

import (
	"fmt"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/object"
)

// Labels that name the writer of EndpointSlices and Endpoints, and their values for the endpoint
// controller.
const (
	LabelManagedBy          = "endpointslice.kubernetes.io/managed-by"
	LabelEndpointsManagedBy = "endpoints.kubernetes.io/managed-by"

	// ManagedByController marks slices made from selectors, ManagedByMirroring slices made from
	// Endpoints, and ManagedByEndpoints Endpoints made from selectors.
	ManagedByController = "endpointslice-controller.k8s.io"
	ManagedByMirroring  = "endpointslicemirroring-controller.k8s.io"
	ManagedByEndpoints  = "endpoint-controller"

	// managedByReserved must not be used, because Kubernetes reserves it.
	managedByReserved = "controller"
)

// ControllerLabel returns the label that marks an object as written by the endpoint controller, and
// reports whether the object has it.
func ControllerLabel(o object.Object) (key, value string, ok bool) {
	switch o := o.(type) {
	case *corev1.EndpointSlice:
		value = o.GetMetadata().GetLabels()[LabelManagedBy]
		return LabelManagedBy, value, value == ManagedByController || value == ManagedByMirroring
	case *corev1.Endpoints:
		value = o.GetMetadata().GetLabels()[LabelEndpointsManagedBy]
		return LabelEndpointsManagedBy, value, value == ManagedByEndpoints
	default:
		return "", "", false
	}
}

// managedWarnings returns warnings for an object that a user writes with such a label.
func managedWarnings(o object.Object) []string {
	if key, value, ok := ControllerLabel(o); ok {
		return []string{fmt.Sprintf("label %s=%s: the endpoint controller undoes changes as long as the service has a selector", key, value)}
	}
	if o.GetMetadata().GetLabels()[LabelManagedBy] == managedByReserved {
		return []string{fmt.Sprintf("label %s=%s: the value is reserved; use one of your own, such as \"staff\"", LabelManagedBy, managedByReserved)}
	}
	return nil
}

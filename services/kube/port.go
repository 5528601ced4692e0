package kube

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	corev1 "portolan.dev/api/core/v1"
)

// readPort reads a port by number or name. It returns nil for values that Kubernetes does not
// distinguish from an absent port.
func readPort(from intstr.IntOrString) *corev1.IntOrString {
	switch {
	case from.Type == intstr.String && from.StrVal != "":
		return &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: from.StrVal}}
	case from.Type == intstr.Int && from.IntVal != 0:
		return &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: from.IntVal}}
	default:
		return nil
	}
}

func writePort(from *corev1.IntOrString) intstr.IntOrString {
	if from.GetName() != "" {
		return intstr.FromString(from.GetName())
	}
	return intstr.FromInt32(from.GetNumber())
}

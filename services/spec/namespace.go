package spec

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
)

// ValidateNamespace checks a new namespace.
func ValidateNamespace(namespace *corev1.Namespace, rules Rules) apierr.Violations {
	var c checks
	for i, finalizer := range namespace.GetSpec().GetFinalizers() {
		c.syntax(indexed("spec.finalizers", i), finalizer, QualifiedName(finalizer))
	}
	c.add(ValidateNamespaceStatus(namespace, rules))
	return c.found
}

// ValidateNamespaceStatus checks the status of a namespace.
func ValidateNamespaceStatus(namespace *corev1.Namespace, _ Rules) apierr.Violations {
	var c checks
	if phase := namespace.GetStatus().GetPhase(); phase != 0 {
		checkEnum(&c, "status.phase", phase)
	}
	checkConditions(&c, namespace.GetStatus().GetConditions())
	return c.found
}

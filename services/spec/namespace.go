package spec

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
)

// ValidateNamespace checks a new namespace.
func ValidateNamespace(namespace *corev1.Namespace, _ Rules) apierr.Violations {
	c := checks{found: validateMeta(namespace, DNSLabel)}
	for i, finalizer := range namespace.GetSpec().GetFinalizers() {
		c.syntax(at("spec.finalizers", i), finalizer, QualifiedName(finalizer))
	}
	c.add(ValidateNamespaceStatus(namespace))
	return c.found
}

// ValidateNamespaceUpdate checks a namespace that is to replace old.
func ValidateNamespaceUpdate(updated, old *corev1.Namespace, rules Rules) apierr.Violations {
	c := checks{found: ValidateNamespace(updated, rules)}
	c.add(validateMetaUpdate(updated.GetMetadata(), old.GetMetadata()))
	return c.found
}

// ValidateNamespaceStatus checks the status of a namespace.
func ValidateNamespaceStatus(namespace *corev1.Namespace) apierr.Violations {
	var c checks
	if phase := namespace.GetStatus().GetPhase(); phase != 0 {
		checkEnum(&c, "status.phase", phase)
	}
	checkConditions(&c, namespace.GetStatus().GetConditions())
	return c.found
}

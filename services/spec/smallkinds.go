package spec

import (
	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

const (
	maxEventReason  = 128
	maxEventMessage = 1024
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

// ValidateNamespaceUpdate checks a namespace that is to take the place of old.
func ValidateNamespaceUpdate(updated, old *corev1.Namespace, rules Rules) apierr.Violations {
	c := checks{found: ValidateNamespace(updated, rules)}
	c.add(validateMetaUpdate(updated.GetMetadata(), old.GetMetadata()))
	return c.found
}

// ValidateNamespaceStatus checks what is reported of a namespace.
func ValidateNamespaceStatus(namespace *corev1.Namespace) apierr.Violations {
	var c checks
	if phase := namespace.GetStatus().GetPhase(); phase != 0 {
		checkEnum(&c, "status.phase", phase)
	}
	checkConditions(&c, namespace.GetStatus().GetConditions())
	return c.found
}

// ValidateLease checks a new lease.
func ValidateLease(lease *corev1.Lease, _ Rules) apierr.Violations {
	c := checks{found: validateMeta(lease, DNSSubdomain)}
	spec := lease.GetSpec()
	switch seconds := spec.GetLeaseDurationSeconds(); {
	case seconds < 0:
		c.invalid("spec.leaseDurationSeconds", seconds, "may not be negative")
	case seconds == 0 && spec.GetHolderIdentity() != "":
		c.required("spec.leaseDurationSeconds", "says how long the holder's word counts")
	}
	if spec.GetLeaseTransitions() < 0 {
		c.invalid("spec.leaseTransitions", spec.GetLeaseTransitions(), "may not be negative")
	}
	return c.found
}

// ValidateLeaseUpdate checks a lease that is to take the place of old.
func ValidateLeaseUpdate(updated, old *corev1.Lease, rules Rules) apierr.Violations {
	c := checks{found: ValidateLease(updated, rules)}
	c.add(validateMetaUpdate(updated.GetMetadata(), old.GetMetadata()))
	return c.found
}

// ValidateEvent checks a new event. It lives in the namespace of its object; events of objects without one live in the default namespace.
func ValidateEvent(event *corev1.Event, _ Rules) apierr.Violations {
	c := checks{found: validateMeta(event, DNSSubdomain)}
	if event.GetRegarding().GetKind() == "" {
		c.required("regarding.kind", "says what it happened to")
	}
	if event.GetRegarding().GetName() == "" {
		c.required("regarding.name", "says what it happened to")
	}
	namespace := event.GetRegarding().GetNamespace()
	if namespace == "" {
		namespace = object.DefaultNamespace
	}
	if namespace != event.GetMetadata().GetNamespace() {
		c.invalid("regarding.namespace", event.GetRegarding().GetNamespace(), "must be the namespace of the event")
	}
	if event.GetReason() == "" {
		c.required("reason", "says what happened, as one word")
	} else if len(event.GetReason()) > maxEventReason {
		c.tooLong("reason", maxEventReason)
	}
	if len(event.GetMessage()) > maxEventMessage {
		c.tooLong("message", maxEventMessage)
	}
	checkEnum(&c, "type", event.GetType())
	return c.found
}

// ValidateEventUpdate checks an event that is to take the place of old.
func ValidateEventUpdate(updated, old *corev1.Event, rules Rules) apierr.Violations {
	c := checks{found: ValidateEvent(updated, rules)}
	c.add(validateMetaUpdate(updated.GetMetadata(), old.GetMetadata()))
	return c.found
}

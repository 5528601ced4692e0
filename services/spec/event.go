package spec

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

const (
	maxEventReason  = 128
	maxEventMessage = 1024
)

// ValidateEvent checks a new event. An event must be in the namespace of its object, or in the
// default namespace if its object has none.
func ValidateEvent(event *corev1.Event, _ Rules) apierr.Violations {
	var c checks
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

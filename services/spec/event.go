package spec

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
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
	}
	regarding := event.GetRegarding()
	for _, field := range []struct {
		name, value string
		limit       int
	}{
		{"reason", event.GetReason(), maxReason},
		{"message", event.GetMessage(), maxMessage},
		{"reportingComponent", event.GetReportingComponent(), maxReporter},
		{"reportingInstance", event.GetReportingInstance(), maxReporter},
		{"regarding.kind", regarding.GetKind(), maxReference},
		{"regarding.namespace", regarding.GetNamespace(), maxReference},
		{"regarding.name", regarding.GetName(), maxReference},
		{"regarding.uid", regarding.GetUid(), maxReference},
		{"regarding.apiVersion", regarding.GetApiVersion(), maxReference},
		{"regarding.fieldPath", regarding.GetFieldPath(), maxFieldPath},
	} {
		c.text(field.name, field.value, field.limit)
	}
	checkEnum(&c, "type", event.GetType())
	return c.found
}

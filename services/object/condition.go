package object

import corev1 "portolan.dev/api/core/v1"

// ConditionReady is the type of the condition that is true if a pod or a node is ready.
const ConditionReady = "Ready"

// Condition returns the condition of a type, or nil if there is none.
func Condition(conditions []*corev1.Condition, conditionType string) *corev1.Condition {
	for _, c := range conditions {
		if c.GetType() == conditionType {
			return c
		}
	}
	return nil
}

// IsTrue reports whether the condition of a type exists and is true.
func IsTrue(conditions []*corev1.Condition, conditionType string) bool {
	return Condition(conditions, conditionType).GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_TRUE
}

// IsReady reports whether the Ready condition is true.
func IsReady(conditions []*corev1.Condition) bool { return IsTrue(conditions, ConditionReady) }

// IsReadyEndpoint reports whether an endpoint is ready. An endpoint without the condition is, as the API
// requires.
func IsReadyEndpoint(e *corev1.Endpoint) bool {
	conditions := e.GetConditions()
	return conditions == nil || conditions.Ready == nil || conditions.GetReady()
}

// Conditions of a service of type LoadBalancer. ConditionLoadBalancer is true if the service's provider
// has given it addresses. Otherwise its message has the reason. ConditionAnnounced is true if nodes
// announce the addresses.
const (
	ConditionLoadBalancer = "portolan.dev/LoadBalancer"
	ConditionAnnounced    = "portolan.dev/Announced"
)

// ConditionSourceReady is the condition of a registrar's pod that is true if the pod's source, such as
// Docker, reports the pod as ready. It is a readiness gate of pods without a probe.
const ConditionSourceReady = "portolan.dev/SourceReady"

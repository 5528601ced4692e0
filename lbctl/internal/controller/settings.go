package controller

import (
	"context"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// reasonSettings is the reason of the event about settings that are not honoured.
const reasonSettings = "LoadBalancerSettings"

// notHonoured lists the annotations of a service that have no effect, or not the effect that they ask for, with
// the reasons. The result is empty if there are none.
func notHonoured(svc *corev1.Service) string {
	var texts []string
	for _, p := range balancer.Ignored(svc) {
		texts = append(texts, p.Annotation+": "+p.Message)
	}
	return strings.Join(texts, "; ")
}

// withSettings appends the settings that are not honoured to the message of a condition.
func withSettings(message string, svc *corev1.Service) string {
	if missed := notHonoured(svc); missed != "" {
		return message + "; not honoured: " + missed
	}
	return message
}

// saySettings records an event about the settings of a service that are not honoured, if they have
// changed. svc is the service with the condition before this sync. If that condition has the same reason and
// message, an earlier leader has recorded the event.
func (c *Controller) saySettings(ctx context.Context, name object.Name, svc *corev1.Service, condition *corev1.Condition) {
	missed := notHonoured(svc)
	before := object.Condition(svc.GetStatus().GetConditions(), object.ConditionLoadBalancer)
	c.mu.Lock()
	last, known := c.settings[name]
	c.settings[name] = missed
	c.mu.Unlock()
	recorded := known && last == missed || before.GetReason() == condition.GetReason() && before.GetMessage() == condition.GetMessage()
	if missed != "" && !recorded {
		c.say(ctx, svc, corev1.EventType_EVENT_TYPE_WARNING, reasonSettings, "not honoured: "+spec.ShortenMessage(missed))
	}
}

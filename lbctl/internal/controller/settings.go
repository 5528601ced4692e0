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

// notHonoured returns the annotations of a service that nothing acts on as they ask for it, with the
// reasons; "": none.
func notHonoured(svc *corev1.Service) string {
	var texts []string
	for _, p := range balancer.Ignored(svc) {
		texts = append(texts, p.Annotation+": "+p.Message)
	}
	return strings.Join(texts, "; ")
}

// withSettings returns the message of the condition of a service whose load balancer is made. It ends
// with the settings that are not honoured.
func withSettings(message string, svc *corev1.Service) string {
	if missed := notHonoured(svc); missed != "" {
		return message + "; not honoured: " + missed
	}
	return message
}

// saySettings records an event about the settings of a service that are not honoured, if they have
// changed. svc is the service with the condition before this sync. The condition tells a new leader
// what the former one has recorded.
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

package controller

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// updateFailedReason is the reason of the event for failed writes of a service's slices.
const updateFailedReason = "FailedToUpdateEndpointSlices"

// endpointsKeptReason is the reason of the event for a service with a selector that has an Endpoints
// without the controller's label.
const endpointsKeptReason = "EndpointsKept"

// staleSlicesReason is the reason of the event for a service after the removal of its selector. As in
// Kubernetes, the slices made from the selector stay, and now belong to the service's owner.
const staleSlicesReason = "EndpointSlicesUntended"

// eventKey is the object and reason of an event.
type eventKey struct {
	key    object.Name
	reason string
}

// report records an event on a service or an Endpoints, unless it equals the last one with the same
// reason there.
func (c *shard) report(ctx context.Context, about object.Object, reason, message string) {
	meta := about.GetMetadata()
	subject := eventKey{object.NameOf(about), reason}
	c.mu.Lock()
	known := c.reported[subject] == message
	c.reported[subject] = message
	c.mu.Unlock()
	if known {
		return
	}
	_, err := c.events.CreateEvent(ctx, &registryv1.CreateEventRequest{Event: &corev1.Event{
		Metadata: &corev1.ObjectMeta{GenerateName: meta.GetName() + ".", Namespace: meta.GetNamespace()},
		Regarding: &corev1.ObjectReference{
			Kind: object.KindOf(about), ApiVersion: "v1", Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(),
		},
		Reason: reason, Message: spec.ShortenMessage(message), Type: corev1.EventType_EVENT_TYPE_WARNING,
		ReportingComponent: component,
	}})
	if err != nil {
		c.forgetReport(subject)
		c.cfg.Log.Warn("event not recorded", "reason", reason, "about", subject.key.String(), "err", err)
	}
}

// reportStaleSlices reports to the owner of a service without selector the slices that were made
// from its selector.
func (t *task) reportStaleSlices(ctx context.Context) {
	if len(t.objects.Slices) == 0 {
		t.c.forgetReport(eventKey{t.key, staleSlicesReason})
		return
	}
	var names []string
	for _, s := range t.objects.Slices {
		names = append(names, s.GetMetadata().GetName())
	}
	slices.Sort(names)
	t.c.report(ctx, t.objects.Service, staleSlicesReason, "the service has no selector, so nothing updates the EndpointSlices that were made from one; "+
		"delete them, or give them a label "+object.LabelManagedBy+" of your own and tend them: "+strings.Join(names, ", "))
}

func (c *shard) forgetReport(subject eventKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reported, subject)
}

func (c *shard) forgetReported(key object.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.reported, func(n eventKey, _ string) bool { return n.key == key })
}

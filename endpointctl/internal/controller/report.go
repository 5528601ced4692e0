package controller

import (
	"context"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
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
	c.events.Report(ctx, eventKey{object.NameOf(about), reason}, about, corev1.EventType_EVENT_TYPE_WARNING, reason, message)
}

// reportStaleSlices reports to the owner of a service without selector the slices that were made
// from its selector.
func (t *task) reportStaleSlices(ctx context.Context) {
	if len(t.objects.Slices) == 0 {
		t.c.events.Forget(eventKey{t.key, staleSlicesReason})
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

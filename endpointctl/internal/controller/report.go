package controller

import (
	"context"
	"maps"
	"strings"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/proto/portolan/core/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/index"
)

// failedToUpdate is the reason of the event for a service whose slices the
// registry refuses.
const failedToUpdate = "FailedToUpdateEndpointSlices"

// maxMessage bounds the message of an event, in bytes.
const maxMessage = 1024

// reportFailure tells the owner of a service what the registry finds wrong with
// its endpoints: waiting will not cure it.
func (c *Controller) reportFailure(ctx context.Context, key index.Key, svc *corev1.Service, err error) {
	switch {
	case err == nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.reported, notice{key, failedToUpdate})
	case apierr.Code(err) == codes.InvalidArgument:
		c.report(ctx, svc, failedToUpdate, apierr.Describe(err))
	}
}

// notice is what an event can be about.
type notice struct {
	key    index.Key
	reason string
}

// report records an event on a service or an Endpoints, unless it was the last
// of its reason there.
func (c *Controller) report(ctx context.Context, about object.Object, reason, message string) {
	meta := about.GetMetadata()
	subject := notice{index.KeyOf(about), reason}
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
		Reason: reason, Message: strings.ToValidUTF8(message[:min(len(message), maxMessage)], ""), Type: corev1.EventType_EVENT_TYPE_WARNING,
		ReportingComponent: component,
	}})
	if err != nil {
		c.cfg.Log.Warn("event not recorded", "reason", reason, "about", subject.key.String(), "err", err)
	}
}

func (c *Controller) forgetReported(key index.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.reported, func(n notice, _ string) bool { return n.key == key })
}

func (c *Controller) wasDeleted(key index.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deleted[key]
}

func (c *Controller) forgetDeleted(key index.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.deleted, key)
}

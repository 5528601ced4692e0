package controller

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Announcement is the state of the addresses of a service on the networks of the nodes.
type Announcement struct {
	// Announced is set if each address is announced by a node.
	Announced bool
	// Reason and Message are the reason and the message of the condition. They change when another node
	// announces.
	Reason, Message string
}

// ReportAnnouncements writes announcements into the conditions of services, unless they are there
// already. Services that are not in all lose the condition. It reports whether some could not be
// written and should be tried again. The context fences the writes.
func (c *Controller) ReportAnnouncements(ctx context.Context, all map[object.Name]Announcement) (again bool) {
	for _, svc := range c.cfg.View.Services() {
		c.cfg.Guard.Run(stepAnnounced, serviceOf(object.NameOf(svc)), func() {
			announcement, ok := all[object.NameOf(svc)]
			again = c.reportAnnouncement(ctx, svc, announcement, ok) || again
		})
	}
	c.cfg.Guard.Forget(stepAnnounced, func(o guard.Object) bool {
		return c.cfg.View.Service(object.Name{Namespace: o.Namespace, Name: o.Name}) == nil
	})
	return again
}

// reportAnnouncement writes the announcement of a service into its conditions, or removes the condition if present
// is false. It reports whether that should be tried again.
func (c *Controller) reportAnnouncement(ctx context.Context, svc *corev1.Service, announcement Announcement, present bool) (again bool) {
	if !spec.IsLoadBalancer(svc) || svc.GetMetadata().GetDeletionTimestamp() != nil {
		return false // the controller removes the condition with the load balancer
	}
	conditions, changed := withAnnouncement(svc.GetStatus().GetConditions(), announcement, present)
	if !changed {
		return false
	}
	next := svc.GetStatus().CloneVT()
	next.Conditions = conditions
	_, err := c.writeStatus(ctx, svc, next)
	if err != nil && !errors.Is(err, errSuperseded) {
		c.cfg.Log.Info("announcement not written", "service", object.NameOf(svc).String(), "err", err)
	}
	return err != nil
}

// withAnnouncement returns the conditions with the announcement, or without the condition if present is false,
// and whether they have changed. The time of the condition changes with its node.
func withAnnouncement(all []*corev1.Condition, a Announcement, present bool) ([]*corev1.Condition, bool) {
	old := object.Condition(all, object.ConditionAnnounced)
	if !present {
		return without(all, object.ConditionAnnounced), old != nil
	}
	state, message := corev1.ConditionStatus_CONDITION_STATUS_FALSE, spec.ShortenMessage(a.Message)
	if a.Announced {
		state = corev1.ConditionStatus_CONDITION_STATUS_TRUE
	}
	if old.GetStatus() == state && old.GetReason() == a.Reason && old.GetMessage() == message {
		return all, false
	}
	return append(without(all, object.ConditionAnnounced), &corev1.Condition{
		Type: object.ConditionAnnounced, Status: state, Reason: a.Reason, Message: message, LastTransitionTime: timestamppb.Now(),
	}), true
}

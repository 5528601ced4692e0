package controller

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// waits is the reason why a service has no load balancer, or has an outdated one.
type waits struct {
	reason  string // of the condition
	message string
	// failed is set for an error, and not for a provider or address that is missing or not ready yet.
	failed bool
}

// failed records an error in the service's condition and returns it, so that the service is tried again. If the
// service needs an address, it waits for changes of the pools. If the provider has not answered, a load balancer that
// was made before keeps its condition, because it works as long as nothing else is known.
func (c *Controller) failed(ctx context.Context, name object.Name, svc *corev1.Service, err error) error {
	w := waits{message: apierr.ToStatus(err).Message()}
	owner := ""
	if errors.Is(err, errSuperseded) || errors.Is(err, errRegistryAway) || ctx.Err() != nil {
		return err
	}
	if isUnavailable(err) {
		c.awaitProvider(name, svc, err)
		if c.mayBeAsMade(name, svc) {
			return err
		}
	} else {
		c.providerAnswered(svc)
	}
	switch apierr.Code(err) {
	case codes.ResourceExhausted:
		w.reason, owner = "NoAddress", spec.OwnerOfAddresses(svc).UID
	case codes.FailedPrecondition:
		w.reason, w.failed, owner = "Refused", true, spec.OwnerOfAddresses(svc).UID
	case codes.InvalidArgument, codes.PermissionDenied, codes.AlreadyExists:
		w.reason, w.failed = "Refused", true
	case codes.Unavailable:
		w.reason = "ProviderUnavailable"
	case codes.DeadlineExceeded:
		w.reason, w.failed = "ProviderUnavailable", true // it answers others, or hangs
	default:
		w.reason, w.failed = "ProviderFailed", true
	}
	c.setWaiting(name, owner)
	if reported := c.fail(ctx, svc, w); reported != nil {
		c.cfg.Log.Info("state of a load balancer not written", "service", name.String(), "err", reported)
	}
	return err
}

// fail writes the reason why a service waits into its condition, and records an Event. The service keeps its
// addresses.
func (c *Controller) fail(ctx context.Context, svc *corev1.Service, w waits) error {
	next := svc.GetStatus().CloneVT()
	if next == nil {
		next = &corev1.ServiceStatus{}
	}
	next.Conditions = withCondition(next.Conditions, corev1.ConditionStatus_CONDITION_STATUS_FALSE, w.reason, w.message)
	if _, err := c.writeStatus(ctx, svc, next); err != nil {
		return err
	}
	if w.failed {
		c.say(ctx, svc, corev1.EventType_EVENT_TYPE_WARNING, "SyncLoadBalancerFailed", w.message)
	} else {
		c.say(ctx, svc, corev1.EventType_EVENT_TYPE_NORMAL, "LoadBalancerPending", w.message)
	}
	return nil
}

// say records an event on a service, unless it equals the last event of the service.
func (c *Controller) say(ctx context.Context, svc *corev1.Service, typ corev1.EventType, reason, message string) {
	c.events.Report(ctx, object.NameOf(svc), svc, typ, reason, message)
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// errSuperseded is the error of a write to a version of a service that is not the newest one, or to a
// service that is gone. The change makes the service due again.
var errSuperseded = errors.New("the service has changed in the meantime")

// errRegistryAway is the error of a write that the registry has not answered. It says nothing about the provider.
var errRegistryAway = errors.New("the registry does not answer")

// writeError marks the error of a write with errSuperseded if the service has changed or is gone, and with
// errRegistryAway if the registry has not answered.
func writeError(err error) error {
	switch code := apierr.Code(err); {
	case code == codes.Aborted || code == codes.NotFound:
		return fmt.Errorf("%w: %w", errSuperseded, err)
	case isUnavailable(err):
		return fmt.Errorf("%w: %w", errRegistryAway, err)
	}
	return err
}

// writeStatus writes the status of this version of a service, unless the service has it already. It returns the
// new version.
func (c *Controller) writeStatus(ctx context.Context, svc *corev1.Service, next *corev1.ServiceStatus) (*corev1.Service, error) {
	if sameStatus(svc, next) {
		return svc, nil
	}
	updated := svc.CloneVT()
	updated.Status = next
	resp, err := c.services.UpdateServiceStatus(ctx, &registryv1.UpdateServiceStatusRequest{Service: updated})
	if err != nil {
		return svc, writeError(err)
	}
	return resp.GetService(), nil
}

// writeMark writes the finalizer and the name of the provider into this version of a service, or
// removes both if class is "". It returns the new version.
func (c *Controller) writeMark(ctx context.Context, svc *corev1.Service, class string) (*corev1.Service, error) {
	updated := svc.CloneVT()
	meta := updated.Metadata
	meta.Finalizers = slices.DeleteFunc(meta.Finalizers, func(f string) bool { return f == object.FinalizerLoadBalancer })
	delete(meta.Annotations, object.AnnotationBalancerProvider)
	if class != "" {
		meta.Finalizers = append(meta.Finalizers, object.FinalizerLoadBalancer)
		if meta.Annotations == nil {
			meta.Annotations = map[string]string{}
		}
		meta.Annotations[object.AnnotationBalancerProvider] = class
	}
	resp, err := c.services.UpdateService(ctx, &registryv1.UpdateServiceRequest{Service: updated})
	if err != nil {
		return svc, writeError(err)
	}
	return resp.GetService(), nil
}

// withCondition returns the conditions with a new condition portolan.dev/LoadBalancer. The time of the condition
// changes only with its status.
func withCondition(all []*corev1.Condition, state corev1.ConditionStatus, reason, message string) []*corev1.Condition {
	next := &corev1.Condition{
		Type: object.ConditionLoadBalancer, Status: state, Reason: reason, Message: spec.ShortenMessage(message), LastTransitionTime: timestamppb.Now(),
	}
	all = slices.Clone(all)
	for i, old := range all {
		if old.GetType() != next.GetType() {
			continue
		}
		if old.GetStatus() == state {
			next.LastTransitionTime = old.GetLastTransitionTime()
		}
		all[i] = next
		return all
	}
	return append(all, next)
}

// without returns a copy of the conditions that leaves out some types.
func without(all []*corev1.Condition, types ...string) []*corev1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c *corev1.Condition) bool { return slices.Contains(types, c.GetType()) })
}

package sim

import (
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/sim/registry"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// membership is a pod behind a service, both by uid.
type membership struct{ service, pod string }

// continuity goes through a history and looks for endpoints that were in no slice for a moment,
// although nothing had happened that could take their pods from behind their services.
type continuityChecker struct {
	services map[object.Key]*corev1.Service
	pods     map[object.Key]*corev1.Pod
	slices   map[object.Key]*corev1.EndpointSlice
	// parted are the pods that once were there and not behind a service that was there too.
	separated map[membership]bool
	// left are the pods that were in slices and are in none any more, with the revision of that.
	removedAt map[membership]uint64
}

// interruptions returns the endpoints that left all slices of their services and came back without
// a reason.
func interruptions(history []registry.Committed) []error {
	c := continuityChecker{
		services: map[object.Key]*corev1.Service{}, pods: map[object.Key]*corev1.Pod{}, slices: map[object.Key]*corev1.EndpointSlice{},
		separated: map[membership]bool{}, removedAt: map[membership]uint64{},
	}
	var found []error
	for _, h := range history {
		found = append(found, c.apply(h.Change)...)
	}
	return found
}

func (c *continuityChecker) apply(change *registryv1.Change) []error {
	deleted := change.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE
	o := object.Unwrap(change.GetObject())
	switch o := o.(type) {
	case *corev1.Service:
		setObject(c.services, o, deleted)
		for _, pod := range c.pods {
			c.recordSeparation(o, pod, deleted)
		}
	case *corev1.Pod:
		setObject(c.pods, o, deleted)
		for _, svc := range c.services {
			c.recordSeparation(svc, o, deleted)
		}
	case *corev1.EndpointSlice:
		before := c.published()
		setObject(c.slices, o, deleted)
		return c.comparePublished(before, c.published(), change.GetRevision())
	}
	return nil
}

func setObject[T object.Object](all map[object.Key]T, o T, deleted bool) {
	if deleted {
		delete(all, object.KeyOf(o))
	} else {
		all[object.KeyOf(o)] = o
	}
}

// part notes that a pod is not behind a service, or that one of the two is gone.
func (c *continuityChecker) recordSeparation(svc *corev1.Service, pod *corev1.Pod, deleted bool) {
	selected := !deleted && svc.GetMetadata().GetNamespace() == pod.GetMetadata().GetNamespace() && !model.IsExternalName(svc) &&
		len(svc.GetSpec().GetSelector()) > 0 && spec.MatchEquality(svc.GetSpec().GetSelector(), pod.GetMetadata().GetLabels())
	if !selected {
		c.separated[membership{svc.GetMetadata().GetUid(), pod.GetMetadata().GetUid()}] = true
	}
}

// published returns the pods that are in slices.
func (c *continuityChecker) published() map[membership]bool {
	all := map[membership]bool{}
	for _, s := range c.slices {
		for _, owner := range s.GetMetadata().GetOwnerReferences() {
			for _, ep := range s.GetEndpoints() {
				all[membership{owner.GetUid(), ep.GetTargetRef().GetUid()}] = true
			}
		}
	}
	return all
}

func (c *continuityChecker) comparePublished(before, after map[membership]bool, revision uint64) []error {
	var found []error
	for m := range before {
		if !after[m] {
			c.removedAt[m] = revision
		}
	}
	for m := range after {
		if since := c.removedAt[m]; !before[m] && since > 0 && !c.separated[m] {
			found = append(found, fmt.Errorf("pod %s was in no slice of service %s from revision %d to %d", m.pod, m.service, since, revision))
		}
	}
	return found
}

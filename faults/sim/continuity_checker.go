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

// membership identifies a pod that a service selects. Both fields are UIDs.
type membership struct{ service, pod string }

// continuityChecker replays a history and finds endpoints that were in no slice for some revisions
// although their services selected their pods all the time.
type continuityChecker struct {
	services map[object.Key]*corev1.Service
	pods     map[object.Key]*corev1.Pod
	slices   map[object.Key]*corev1.EndpointSlice
	// separated has the pods that a service did not select at some revision, while both existed or
	// when one of them was deleted.
	separated map[membership]bool
	// removedAt has the revision at which a pod left the last slice of a service.
	removedAt map[membership]uint64
}

// interruptions returns an error for each endpoint that was removed from all slices of its service
// and added again, although the service selected the pod all the time.
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

// apply applies a change and returns the interruptions that it ends.
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

// recordSeparation records the pair in separated if one of the two was deleted, or the service does
// not select the pod.
func (c *continuityChecker) recordSeparation(svc *corev1.Service, pod *corev1.Pod, deleted bool) {
	selected := !deleted && svc.GetMetadata().GetNamespace() == pod.GetMetadata().GetNamespace() && !model.IsExternalName(svc) &&
		len(svc.GetSpec().GetSelector()) > 0 && spec.MatchEquality(svc.GetSpec().GetSelector(), pod.GetMetadata().GetLabels())
	if !selected {
		c.separated[membership{svc.GetMetadata().GetUid(), pod.GetMetadata().GetUid()}] = true
	}
}

// published returns the pods in the slices of each service.
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

// comparePublished records the pods that were removed from all slices, and returns an error for
// each pod that was added again after an interruption.
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

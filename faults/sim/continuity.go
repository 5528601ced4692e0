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
type continuity struct {
	services map[object.Key]*corev1.Service
	pods     map[object.Key]*corev1.Pod
	slices   map[object.Key]*corev1.EndpointSlice
	// parted are the pods that once were there and not behind a service that was there too.
	parted map[membership]bool
	// left are the pods that were in slices and are in none any more, with the revision of that.
	left map[membership]uint64
}

// interruptions returns the endpoints that left all slices of their services and came back without
// a reason.
func interruptions(history []registry.Committed) []error {
	c := continuity{
		services: map[object.Key]*corev1.Service{}, pods: map[object.Key]*corev1.Pod{}, slices: map[object.Key]*corev1.EndpointSlice{},
		parted: map[membership]bool{}, left: map[membership]uint64{},
	}
	var found []error
	for _, h := range history {
		found = append(found, c.take(h.Change)...)
	}
	return found
}

func (c *continuity) take(change *registryv1.Change) []error {
	deleted := change.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE
	o := object.Unwrap(change.GetObject())
	switch o := o.(type) {
	case *corev1.Service:
		remember(c.services, o, deleted)
		for _, pod := range c.pods {
			c.part(o, pod, deleted)
		}
	case *corev1.Pod:
		remember(c.pods, o, deleted)
		for _, svc := range c.services {
			c.part(svc, o, deleted)
		}
	case *corev1.EndpointSlice:
		before := c.published()
		remember(c.slices, o, deleted)
		return c.compare(before, c.published(), change.GetRevision())
	}
	return nil
}

func remember[T object.Object](all map[object.Key]T, o T, deleted bool) {
	if deleted {
		delete(all, object.KeyOf(o))
	} else {
		all[object.KeyOf(o)] = o
	}
}

// part notes that a pod is not behind a service, or that one of the two is gone.
func (c *continuity) part(svc *corev1.Service, pod *corev1.Pod, gone bool) {
	together := !gone && svc.GetMetadata().GetNamespace() == pod.GetMetadata().GetNamespace() && !model.IsExternalName(svc) &&
		len(svc.GetSpec().GetSelector()) > 0 && spec.MatchEquality(svc.GetSpec().GetSelector(), pod.GetMetadata().GetLabels())
	if !together {
		c.parted[membership{svc.GetMetadata().GetUid(), pod.GetMetadata().GetUid()}] = true
	}
}

// published returns the pods that are in slices.
func (c *continuity) published() map[membership]bool {
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

func (c *continuity) compare(before, after map[membership]bool, revision uint64) []error {
	var found []error
	for m := range before {
		if !after[m] {
			c.left[m] = revision
		}
	}
	for m := range after {
		if since := c.left[m]; !before[m] && since > 0 && !c.parted[m] {
			found = append(found, fmt.Errorf("pod %s was in no slice of service %s from revision %d to %d", m.pod, m.service, since, revision))
		}
	}
	return found
}

package packing

import (
	"strings"

	corev1 "portolan.dev/api/core/v1"
)

// RememberedPods is the number of pods from which the verdicts on a service's pods are worth
// remembering. Below it they are computed faster than a sync's writes are encoded, and services with
// fewer pods are too many to remember them all.
const RememberedPods = 100

// Memory holds the verdicts on the pods of one service, and the slices that have their endpoints, so
// that the next sync computes only what may differ. The zero value is empty. It is not safe for
// concurrent use.
//
// Objects never change, so a verdict holds as long as the service, the pod and the pod's node are the
// same ones, and a slice that is the same one has the same endpoints. Refused endpoints are left out
// of verdicts, so verdicts are remembered only without any.
type Memory struct {
	svc      *corev1.Service
	verdicts []*PodVerdict                              // ordered by name
	placed   map[*corev1.EndpointSlice][]*endpointOfPod // endpoints of slices that have them as wanted
}

// EvaluatePods returns what the function of that name returns. pods must be ordered by name.
func (m *Memory) EvaluatePods(svc *corev1.Service, pods []*corev1.Pod, nodes Nodes, refused Refused) []*PodVerdict {
	known := m.verdicts
	if m.svc != svc {
		known = nil
	}
	m.svc, m.verdicts = nil, nil
	if len(pods) < RememberedPods || len(refused) > 0 {
		return EvaluatePods(svc, pods, nodes, refused)
	}
	m.svc, m.verdicts = svc, make([]*PodVerdict, len(pods))
	for i, pod := range pods {
		known = skipBefore(known, pod)
		if len(known) > 0 && known[0].holds(pod, nodes) {
			m.verdicts[i] = known[0]
		} else {
			m.verdicts[i] = evaluate(svc, pod, nodes, nil)
		}
	}
	return m.verdicts
}

// skipBefore returns the verdicts without those on pods whose names come before the pod's.
func skipBefore(verdicts []*PodVerdict, pod *corev1.Pod) []*PodVerdict {
	for len(verdicts) > 0 && verdicts[0].Pod != pod && strings.Compare(verdicts[0].Pod.GetMetadata().GetName(), pod.GetMetadata().GetName()) < 0 {
		verdicts = verdicts[1:]
	}
	return verdicts
}

// holds reports whether the verdict is also the one on a pod of the same service.
func (v *PodVerdict) holds(pod *corev1.Pod, nodes Nodes) bool {
	if v.Pod != pod {
		return false
	}
	node, registered := nodeOfPod(pod, nodes)
	return node == v.node && registered == v.registered
}

// Pack returns what the function of that name returns.
func (m *Memory) Pack(w DesiredSlices, existing []*corev1.EndpointSlice) Plan {
	plan, placed := pack(w, existing, m.placed)
	m.placed = placed
	return plan
}

package packing

import (
	"strings"

	corev1 "portolan.dev/api/core/v1"
)

// RememberedPods is the smallest number of pods of a service for which the verdicts are remembered. With
// fewer pods, computing them takes less time than encoding the writes of a sync, and there are too many
// such services to remember them all.
const RememberedPods = 100

// Memory holds the verdicts on the pods of one service, and the slices that have their endpoints, so
// that the next sync computes only verdicts and slices that may differ. The zero value is empty. It is
// not safe for concurrent use.
//
// Objects never change. So a verdict is valid as long as the service and the pod are the same objects and
// the pod's node has the same state, and the same slice object has the same endpoints. Verdicts leave out
// refused endpoints, so they are remembered only if no endpoint is refused.
type Memory struct {
	svc      *corev1.Service
	verdicts []*PodVerdict                              // ordered by name
	placed   map[*corev1.EndpointSlice][]*endpointOfPod // endpoints of slices that have them as wanted
}

// EvaluatePods returns the same verdicts as the function EvaluatePods. pods must be ordered by name.
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
	ports := newPortResolver(svc)
	for i, pod := range pods {
		known = skipBefore(known, pod)
		if len(known) > 0 && known[0].holds(pod, nodes) {
			m.verdicts[i] = known[0]
		} else {
			m.verdicts[i] = evaluate(svc, ports, pod, nodes, nil)
		}
	}
	return m.verdicts
}

// skipBefore returns the verdicts from the pod's place on. It skips pods with names before the pod's name.
func skipBefore(verdicts []*PodVerdict, pod *corev1.Pod) []*PodVerdict {
	for len(verdicts) > 0 && verdicts[0].Pod != pod && strings.Compare(verdicts[0].Pod.GetMetadata().GetName(), pod.GetMetadata().GetName()) < 0 {
		verdicts = verdicts[1:]
	}
	return verdicts
}

// holds reports whether the verdict is valid for a pod and the current state of its node.
func (v *PodVerdict) holds(pod *corev1.Pod, nodes Nodes) bool {
	if v.Pod != pod {
		return false
	}
	node, registered := nodeOfPod(pod, nodes)
	return node == v.node && registered == v.registered
}

// Pack returns the same plan as the function Pack, and remembers the placement of the endpoints.
func (m *Memory) Pack(w DesiredSlices, existing []*corev1.EndpointSlice) Plan {
	plan, placed := pack(w, existing, m.placed)
	m.placed = placed
	return plan
}

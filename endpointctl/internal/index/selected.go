package index

import (
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// findPods returns the pods that a service selects, ordered by name. It looks them up by the rarest
// pair of the service's selector.
func (x *Index) findPods(svc *corev1.Service) []*corev1.Pod {
	selector := svc.GetSpec().GetSelector()
	var rarest map[object.Name]*corev1.Pod
	first := true
	for k, v := range selector {
		candidates := x.byLabel[pair{svc.GetMetadata().GetNamespace(), k, v}]
		if first || len(candidates) < len(rarest) {
			rarest, first = candidates, false
		}
	}
	var pods []*corev1.Pod
	for _, pod := range rarest {
		if spec.MatchEquality(selector, pod.GetMetadata().GetLabels()) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, byName)
	return pods
}

func byName(a, b *corev1.Pod) int {
	return strings.Compare(a.GetMetadata().GetName(), b.GetMetadata().GetName())
}

// withPod adds a pod to pods that are ordered by name, or replaces the pod with the same name.
func withPod(pods []*corev1.Pod, pod *corev1.Pod) []*corev1.Pod {
	at, found := slices.BinarySearchFunc(pods, pod, byName)
	if found {
		pods[at] = pod
		return pods
	}
	return slices.Insert(pods, at, pod)
}

// withoutPod removes the pod with the same name from pods that are ordered by name.
func withoutPod(pods []*corev1.Pod, pod *corev1.Pod) []*corev1.Pod {
	if at, found := slices.BinarySearchFunc(pods, pod, byName); found {
		return slices.Delete(pods, at, at+1)
	}
	return pods
}

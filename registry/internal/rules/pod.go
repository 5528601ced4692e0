package rules

import (
	"fmt"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// checkPodStatus refuses the cluster IP of a service as a pod's address, because no EndpointSlice
// could contain it. An address that the pod had before stays, because the service was created
// later.
//
// A workload's pod has addresses of its node only. Otherwise a workload could send the clients of
// its services to any machine.
func checkPodStatus(w Context, o, old object.Object) apierr.Violations {
	var found apierr.Violations
	pod, _ := o.(*corev1.Pod)
	before, _ := old.(*corev1.Pod)
	for i, ip := range pod.GetStatus().GetPodIps() {
		if !slices.Contains(before.GetStatus().GetPodIps(), ip) {
			field := fmt.Sprintf("status.podIPs[%d]", i)
			checkBackend(w, &found, field, ip)
			checkWorkloadAddress(w, &found, field, ip, pod)
		}
	}
	return found
}

func checkWorkloadAddress(w Context, found *apierr.Violations, field, ip string, pod *corev1.Pod) {
	if _, ok := pod.GetMetadata().GetAnnotations()[object.AnnotationWorkload]; !ok {
		return
	}
	node := pod.GetSpec().GetNodeName()
	for _, item := range w.Indexes.NodeAddresses.Lookup(canonicalAddress(ip)) {
		if item.Key.Name == node {
			return
		}
	}
	found.Add(field, apierr.ReasonInvalid, "invalid value %q: a workload's pod has addresses of its node, and node %q has no such address", ip, node)
}

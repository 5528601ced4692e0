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
func checkPodStatus(w Context, o, old object.Object) apierr.Violations {
	var found apierr.Violations
	pod, _ := o.(*corev1.Pod)
	before, _ := old.(*corev1.Pod)
	for i, ip := range pod.GetStatus().GetPodIps() {
		if !slices.Contains(before.GetStatus().GetPodIps(), ip) {
			checkBackend(w, &found, fmt.Sprintf("status.podIPs[%d]", i), ip)
		}
	}
	return found
}

package columns

import (
	"cmp"
	"fmt"

	kubev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"portolan.dev/services/kube"
)

var pods = printer{
	columns: []metav1.TableColumnDefinition{
		name, text("Ready", "Number of ready containers, and of all."), text("Status", "The phase of the pod, or the reason for it."),
		text("Restarts", "Restarts of the containers, which Portolan does not count."), age, wide("IP", "The address of the pod."),
		wide("Node", "The node that the pod runs on."), wide("Nominated Node", "Not used by Portolan."),
		wide("Readiness Gates", "Extra conditions, true and all."),
	},
	cells: func(o kube.Object) []any {
		pod, _ := o.(*kubev1.Pod)
		containers, ready := len(pod.Spec.Containers), 0
		if isTrue(pod, "ContainersReady") || isTrue(pod, kubev1.PodReady) {
			ready = containers
		}
		return []any{
			pod.Name, fmt.Sprintf("%d/%d", ready, containers), podStatus(pod), "0", Age(pod.CreationTimestamp), orNone(pod.Status.PodIP),
			orNone(pod.Spec.NodeName), "<none>", gates(pod),
		}
	},
}

func podStatus(pod *kubev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "Terminating"
	}
	return cmp.Or(pod.Status.Reason, string(pod.Status.Phase), string(kubev1.PodPending))
}

func gates(pod *kubev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	met := 0
	for _, gate := range pod.Spec.ReadinessGates {
		if isTrue(pod, gate.ConditionType) {
			met++
		}
	}
	return fmt.Sprintf("%d/%d", met, len(pod.Spec.ReadinessGates))
}

func isTrue(pod *kubev1.Pod, condition kubev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == condition {
			return c.Status == kubev1.ConditionTrue
		}
	}
	return false
}

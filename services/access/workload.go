package access

import (
	"cmp"
	"context"
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// CheckReport returns an error unless the caller may report the outcome of a check of a pod. A workload
// and a registrar may report for their own pods, an operator for the pods that it may write.
func CheckReport(ctx context.Context, pod *corev1.Pod) error {
	limit := WriteLimitOf(ctx)
	if limit == nil {
		return nil
	}
	return limit(pod, pod)
}

// ownPods allows writes to pods that belong to a workload or a registrar before and after the write.
func ownPods(id identity.ID, updated, old object.Object) string {
	for _, o := range []object.Object{old, updated} {
		if o == nil {
			continue
		}
		if reason := notOwn(id, o); reason != "" {
			return reason
		}
	}
	return ""
}

// notOwn returns the reason why an object is not the own pod of a workload or a registrar, or "" if it is.
func notOwn(id identity.ID, o object.Object) string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return fmt.Sprintf("a %s has pods only", id.Role)
	}
	meta := pod.GetMetadata()
	if node := pod.GetSpec().GetNodeName(); node != id.Name {
		return fmt.Sprintf("the pod is on node %q, and this %s is bound to node %q", node, id.Role, id.Name)
	}
	if reason := otherNamespace(id, cmp.Or(meta.GetNamespace(), object.DefaultNamespace)); reason != "" {
		return reason
	}
	if owner := meta.GetAnnotations()[object.AnnotationWorkload]; owner != id.Path() {
		return fmt.Sprintf("a %s's pod has the annotation %s: %s, and this one has %q", id.Role, object.AnnotationWorkload, id.Path(), owner)
	}
	return ""
}

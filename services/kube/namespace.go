package kube

import (
	kubev1 "k8s.io/api/core/v1"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

func (r *reader) namespace(from *kubev1.Namespace) *corev1.Namespace {
	to := &corev1.Namespace{Metadata: r.meta(&from.ObjectMeta)}
	if len(from.Spec.Finalizers) > 0 {
		to.Spec = &corev1.NamespaceSpec{Finalizers: words[string](from.Spec.Finalizers)}
	}
	status := &corev1.NamespaceStatus{
		Phase: readEnum[corev1.NamespacePhase](r, "status.phase", from.Status.Phase),
		Conditions: each(from.Status.Conditions, func(i int, condition kubev1.NamespaceCondition) *corev1.Condition {
			return &corev1.Condition{
				Type: string(condition.Type), Reason: condition.Reason, Message: condition.Message, LastTransitionTime: readTime(condition.LastTransitionTime),
				Status: readEnum[corev1.ConditionStatus](r, at("status.conditions", i)+".status", condition.Status),
			}
		}),
	}
	if status.SizeVT() > 0 {
		to.Status = status
	}
	return to
}

func writeNamespace(from *corev1.Namespace, to *kubev1.Namespace) {
	to.ObjectMeta = WriteMeta(from.GetMetadata())
	to.Spec.Finalizers = words[kubev1.FinalizerName](from.GetSpec().GetFinalizers())
	to.Status.Phase = kubev1.NamespacePhase(spec.EnumName(from.GetStatus().GetPhase()))
	to.Status.Conditions = each(from.GetStatus().GetConditions(), func(_ int, condition *corev1.Condition) kubev1.NamespaceCondition {
		return kubev1.NamespaceCondition{
			Type: kubev1.NamespaceConditionType(condition.GetType()), Status: kubev1.ConditionStatus(spec.EnumName(condition.GetStatus())),
			Reason: condition.GetReason(), Message: condition.GetMessage(), LastTransitionTime: writeTime(condition.GetLastTransitionTime()),
		}
	})
}

package kube

import (
	kubev1 "k8s.io/api/core/v1"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

func (r *reader) node(from *kubev1.Node) *corev1.Node {
	to := &corev1.Node{Metadata: r.meta(&from.ObjectMeta), Spec: &corev1.NodeSpec{
		PodCidr: from.Spec.PodCIDR, PodCidrs: from.Spec.PodCIDRs, Unschedulable: from.Spec.Unschedulable, ProviderId: from.Spec.ProviderID,
		Taints: each(from.Spec.Taints, func(_ int, taint kubev1.Taint) *corev1.Taint {
			return &corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: string(taint.Effect)}
		}),
	}}
	status := &corev1.NodeStatus{
		KernelVersion: from.Status.NodeInfo.KernelVersion, AgentVersion: from.Status.NodeInfo.KubeletVersion,
		Addresses: each(from.Status.Addresses, func(_ int, address kubev1.NodeAddress) *corev1.NodeAddress {
			return &corev1.NodeAddress{Type: string(address.Type), Address: address.Address}
		}),
		Conditions: each(from.Status.Conditions, func(i int, condition kubev1.NodeCondition) *corev1.Condition {
			return &corev1.Condition{
				Type: string(condition.Type), Reason: condition.Reason, Message: condition.Message,
				Status:             readEnum[corev1.ConditionStatus](r, at("status.conditions", i)+".status", condition.Status),
				LastTransitionTime: readTime(condition.LastTransitionTime), LastProbeTime: readTime(condition.LastHeartbeatTime),
			}
		}),
	}
	status.ProxyMode, _ = takeAnnotation(to.Metadata, AnnotationProxyMode)
	status.AgentAddress, _ = takeAnnotation(to.Metadata, AnnotationAgentAddress)
	if status.SizeVT() > 0 {
		to.Status = status
	}
	return to
}

func writeNode(from *corev1.Node, to *kubev1.Node) {
	to.ObjectMeta = WriteMeta(from.GetMetadata())
	to.Spec = kubev1.NodeSpec{
		PodCIDR: from.GetSpec().GetPodCidr(), PodCIDRs: from.GetSpec().GetPodCidrs(), Unschedulable: from.GetSpec().GetUnschedulable(),
		ProviderID: from.GetSpec().GetProviderId(),
		Taints: each(from.GetSpec().GetTaints(), func(_ int, taint *corev1.Taint) kubev1.Taint {
			return kubev1.Taint{Key: taint.GetKey(), Value: taint.GetValue(), Effect: kubev1.TaintEffect(taint.GetEffect())}
		}),
	}
	status := from.GetStatus()
	to.Status.NodeInfo.KernelVersion, to.Status.NodeInfo.KubeletVersion = status.GetKernelVersion(), status.GetAgentVersion()
	to.Status.Addresses = each(status.GetAddresses(), func(_ int, address *corev1.NodeAddress) kubev1.NodeAddress {
		return kubev1.NodeAddress{Type: kubev1.NodeAddressType(address.GetType()), Address: address.GetAddress()}
	})
	to.Status.Conditions = each(status.GetConditions(), func(_ int, condition *corev1.Condition) kubev1.NodeCondition {
		return kubev1.NodeCondition{
			Type: kubev1.NodeConditionType(condition.GetType()), Status: kubev1.ConditionStatus(spec.EnumName(condition.GetStatus())),
			Reason: condition.GetReason(), Message: condition.GetMessage(),
			LastTransitionTime: writeTime(condition.GetLastTransitionTime()), LastHeartbeatTime: writeTime(condition.GetLastProbeTime()),
		}
	})
	put(&to.ObjectMeta, AnnotationProxyMode, status.GetProxyMode())
	put(&to.ObjectMeta, AnnotationAgentAddress, status.GetAgentAddress())
}

package manifest

import (
	"fmt"
	"math"
	"strconv"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/manifest/kube"
	"portolan.dev/services/spec"
)

func (r *reader) node(from *kube.Node) *corev1.Node {
	to := &corev1.Node{Metadata: r.meta(from.ObjectMeta), Spec: &corev1.NodeSpec{
		PodCidr: from.Spec.PodCIDR, PodCidrs: from.Spec.PodCIDRs, Unschedulable: from.Spec.Unschedulable, ProviderId: from.Spec.ProviderID,
		Taints: each(from.Spec.Taints, func(_ int, taint kube.Taint) *corev1.Taint {
			return &corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: string(taint.Effect)}
		}),
	}}
	status := &corev1.NodeStatus{
		KernelVersion: from.Status.NodeInfo.KernelVersion, AgentVersion: from.Status.NodeInfo.KubeletVersion,
		Addresses: each(from.Status.Addresses, func(_ int, address kube.NodeAddress) *corev1.NodeAddress {
			return &corev1.NodeAddress{Type: string(address.Type), Address: address.Address}
		}),
		Conditions: each(from.Status.Conditions, func(i int, condition kube.NodeCondition) *corev1.Condition {
			return &corev1.Condition{
				Type: string(condition.Type), Reason: condition.Reason, Message: condition.Message,
				Status:             readEnum[corev1.ConditionStatus](r, fmt.Sprintf("status.conditions[%d].status", i), condition.Status),
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

func writeNode(from *corev1.Node, to *kube.Node) {
	to.ObjectMeta = writeMeta(from.GetMetadata())
	to.Spec = kube.NodeSpec{
		PodCIDR: from.GetSpec().GetPodCidr(), PodCIDRs: from.GetSpec().GetPodCidrs(), Unschedulable: from.GetSpec().GetUnschedulable(),
		ProviderID: from.GetSpec().GetProviderId(),
		Taints: each(from.GetSpec().GetTaints(), func(_ int, taint *corev1.Taint) kube.Taint {
			return kube.Taint{Key: taint.GetKey(), Value: taint.GetValue(), Effect: kube.TaintEffect(taint.GetEffect())}
		}),
	}
	status := from.GetStatus()
	to.Status.NodeInfo.KernelVersion, to.Status.NodeInfo.KubeletVersion = status.GetKernelVersion(), status.GetAgentVersion()
	to.Status.Addresses = each(status.GetAddresses(), func(_ int, address *corev1.NodeAddress) kube.NodeAddress {
		return kube.NodeAddress{Type: kube.NodeAddressType(address.GetType()), Address: address.GetAddress()}
	})
	to.Status.Conditions = each(status.GetConditions(), func(_ int, condition *corev1.Condition) kube.NodeCondition {
		return kube.NodeCondition{
			Type: kube.NodeConditionType(condition.GetType()), Status: kube.ConditionStatus(spec.EnumName(condition.GetStatus())),
			Reason: condition.GetReason(), Message: condition.GetMessage(),
			LastTransitionTime: writeTime(condition.GetLastTransitionTime()), LastHeartbeatTime: writeTime(condition.GetLastProbeTime()),
		}
	})
	put(&to.ObjectMeta, AnnotationProxyMode, status.GetProxyMode())
	put(&to.ObjectMeta, AnnotationAgentAddress, status.GetAgentAddress())
}

func (r *reader) namespace(from *kube.Namespace) *corev1.Namespace {
	to := &corev1.Namespace{Metadata: r.meta(from.ObjectMeta)}
	if len(from.Spec.Finalizers) > 0 {
		to.Spec = &corev1.NamespaceSpec{Finalizers: each(from.Spec.Finalizers, func(_ int, name kube.FinalizerName) string { return string(name) })}
	}
	status := &corev1.NamespaceStatus{
		Phase: readEnum[corev1.NamespacePhase](r, "status.phase", from.Status.Phase),
		Conditions: each(from.Status.Conditions, func(i int, condition kube.NamespaceCondition) *corev1.Condition {
			return &corev1.Condition{
				Type: string(condition.Type), Reason: condition.Reason, Message: condition.Message, LastTransitionTime: readTime(condition.LastTransitionTime),
				Status: readEnum[corev1.ConditionStatus](r, fmt.Sprintf("status.conditions[%d].status", i), condition.Status),
			}
		}),
	}
	if status.SizeVT() > 0 {
		to.Status = status
	}
	return to
}

func writeNamespace(from *corev1.Namespace, to *kube.Namespace) {
	to.ObjectMeta = writeMeta(from.GetMetadata())
	to.Spec.Finalizers = each(from.GetSpec().GetFinalizers(), func(_ int, name string) kube.FinalizerName { return kube.FinalizerName(name) })
	to.Status.Phase = kube.NamespacePhase(spec.EnumName(from.GetStatus().GetPhase()))
	to.Status.Conditions = each(from.GetStatus().GetConditions(), func(_ int, condition *corev1.Condition) kube.NamespaceCondition {
		return kube.NamespaceCondition{
			Type: kube.NamespaceConditionType(condition.GetType()), Status: kube.ConditionStatus(spec.EnumName(condition.GetStatus())),
			Reason: condition.GetReason(), Message: condition.GetMessage(), LastTransitionTime: writeTime(condition.GetLastTransitionTime()),
		}
	})
}

func (r *reader) lease(from *kube.Lease) *corev1.Lease {
	to := &corev1.Lease{Metadata: r.meta(from.ObjectMeta), Spec: &corev1.LeaseSpec{
		HolderIdentity: value(from.Spec.HolderIdentity), LeaseDurationSeconds: value(from.Spec.LeaseDurationSeconds),
		AcquireTime: readMicroTime(from.Spec.AcquireTime), RenewTime: readMicroTime(from.Spec.RenewTime),
		LeaseTransitions: value(from.Spec.LeaseTransitions),
	}}
	if epoch := r.takeNumber(to.Metadata, AnnotationEpoch, math.MaxUint64); epoch != nil {
		to.Spec.Epoch = *epoch
	}
	if shards := r.takeNumber(to.Metadata, AnnotationShards, math.MaxInt32); shards != nil {
		to.Spec.Shards = int32(*shards)
	}
	return to
}

func writeLease(from *corev1.Lease, to *kube.Lease) {
	to.ObjectMeta = writeMeta(from.GetMetadata())
	s := from.GetSpec()
	to.Spec = kube.LeaseSpec{
		HolderIdentity: unlessZero(s.GetHolderIdentity()), LeaseDurationSeconds: unlessZero(s.GetLeaseDurationSeconds()),
		AcquireTime: writeMicroTime(s.GetAcquireTime()), RenewTime: writeMicroTime(s.GetRenewTime()),
		LeaseTransitions: unlessZero(s.GetLeaseTransitions()),
	}
	if s.GetEpoch() != 0 {
		put(&to.ObjectMeta, AnnotationEpoch, strconv.FormatUint(s.GetEpoch(), 10))
	}
	if s.GetShards() != 0 {
		put(&to.ObjectMeta, AnnotationShards, strconv.FormatInt(int64(s.GetShards()), 10))
	}
}

func unlessZero[T comparable](from T) *T {
	var zero T
	if from == zero {
		return nil
	}
	return &from
}

func (r *reader) event(from *kube.Event) *corev1.Event {
	return &corev1.Event{
		Metadata: r.meta(from.ObjectMeta), Regarding: r.reference("involvedObject", &from.InvolvedObject),
		Reason: from.Reason, Message: from.Message, Type: readEnum[corev1.EventType](r, "type", from.Type), Count: from.Count,
		FirstTimestamp: readTime(from.FirstTimestamp), LastTimestamp: readTime(from.LastTimestamp),
		ReportingComponent: from.ReportingController, ReportingInstance: from.ReportingInstance,
	}
}

func writeEvent(from *corev1.Event, to *kube.Event) {
	to.ObjectMeta = writeMeta(from.GetMetadata())
	if regarding := writeReference(from.GetRegarding()); regarding != nil {
		to.InvolvedObject = *regarding
	}
	to.Reason, to.Message, to.Type, to.Count = from.GetReason(), from.GetMessage(), spec.EnumName(from.GetType()), from.GetCount()
	to.FirstTimestamp, to.LastTimestamp = writeTime(from.GetFirstTimestamp()), writeTime(from.GetLastTimestamp())
	to.ReportingController, to.ReportingInstance = from.GetReportingComponent(), from.GetReportingInstance()
}

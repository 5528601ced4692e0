package kube

import (
	"strconv"

	kubev1 "k8s.io/api/core/v1"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

func (r *reader) pod(from *kubev1.Pod) *corev1.Pod {
	s := &from.Spec
	to := &corev1.Pod{Metadata: r.meta(&from.ObjectMeta), Status: r.podStatus(&from.Status), Spec: &corev1.PodSpec{
		NodeName: s.NodeName, Hostname: s.Hostname, Subdomain: s.Subdomain, HostNetwork: s.HostNetwork,
		EnableServiceLinks: s.EnableServiceLinks, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		RestartPolicy: string(s.RestartPolicy),
		ReadinessGates: each(s.ReadinessGates, func(_ int, gate kubev1.PodReadinessGate) *corev1.PodReadinessGate {
			return &corev1.PodReadinessGate{ConditionType: string(gate.ConditionType)}
		}),
		Containers:     r.containers("spec.containers", s.Containers),
		InitContainers: r.containers("spec.initContainers", s.InitContainers),
	}}
	r.readinessTTLs(to)
	if weight := r.takeNumber(to.Metadata, AnnotationWeight, maxWeight); weight != nil {
		to.Spec.Weight = new(uint32(*weight)) // #nosec G115 -- takeNumber has the limit
	}
	return to
}

func (r *reader) podStatus(from *kubev1.PodStatus) *corev1.PodStatus {
	to := &corev1.PodStatus{
		Phase: readEnum[corev1.PodPhase](r, "status.phase", from.Phase), Reason: from.Reason, Message: from.Message,
		PodIp: from.PodIP, HostIp: from.HostIP,
		PodIps: each(from.PodIPs, func(_ int, ip kubev1.PodIP) string { return ip.IP }),
		Conditions: each(from.Conditions, func(i int, condition kubev1.PodCondition) *corev1.Condition {
			return &corev1.Condition{
				Type: string(condition.Type), ObservedGeneration: condition.ObservedGeneration, Reason: condition.Reason, Message: condition.Message,
				Status:             readEnum[corev1.ConditionStatus](r, at("status.conditions", i)+".status", condition.Status),
				LastTransitionTime: readTime(condition.LastTransitionTime), LastProbeTime: readTime(condition.LastProbeTime),
			}
		}),
	}
	if from.StartTime != nil {
		to.StartTime = readTime(*from.StartTime)
	}
	if to.SizeVT() == 0 {
		return nil
	}
	return to
}

func writePod(from *corev1.Pod, to *kubev1.Pod) {
	to.ObjectMeta = WriteMeta(from.GetMetadata())
	writePodStatus(from.GetStatus(), &to.Status)
	s := from.GetSpec()
	if s == nil {
		return
	}
	to.Spec = kubev1.PodSpec{
		NodeName: s.GetNodeName(), Hostname: s.GetHostname(), Subdomain: s.GetSubdomain(), HostNetwork: s.GetHostNetwork(),
		EnableServiceLinks: s.EnableServiceLinks, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		RestartPolicy: kubev1.RestartPolicy(s.GetRestartPolicy()),
		ReadinessGates: each(s.GetReadinessGates(), func(_ int, gate *corev1.PodReadinessGate) kubev1.PodReadinessGate {
			return kubev1.PodReadinessGate{ConditionType: kubev1.PodConditionType(gate.GetConditionType())}
		}),
		Containers:     each(s.GetContainers(), writeContainer),
		InitContainers: each(s.GetInitContainers(), writeContainer),
	}
	if to.Spec.Containers == nil {
		to.Spec.Containers = []kubev1.Container{} // the field is required
	}
	writeReadinessTTLs(&to.ObjectMeta, s)
	if s.Weight != nil {
		put(&to.ObjectMeta, AnnotationWeight, strconv.Itoa(int(*s.Weight)))
	}
}

func writePodStatus(from *corev1.PodStatus, to *kubev1.PodStatus) {
	*to = kubev1.PodStatus{
		Phase: kubev1.PodPhase(spec.EnumName(from.GetPhase())), Reason: from.GetReason(), Message: from.GetMessage(),
		PodIP: from.GetPodIp(), HostIP: from.GetHostIp(),
		PodIPs: each(from.GetPodIps(), func(_ int, ip string) kubev1.PodIP { return kubev1.PodIP{IP: ip} }),
		Conditions: each(from.GetConditions(), func(_ int, condition *corev1.Condition) kubev1.PodCondition {
			return kubev1.PodCondition{
				Type: kubev1.PodConditionType(condition.GetType()), Status: kubev1.ConditionStatus(spec.EnumName(condition.GetStatus())),
				ObservedGeneration: condition.GetObservedGeneration(), Reason: condition.GetReason(), Message: condition.GetMessage(),
				LastTransitionTime: writeTime(condition.GetLastTransitionTime()), LastProbeTime: writeTime(condition.GetLastProbeTime()),
			}
		}),
	}
	if from.GetStartTime() != nil {
		to.StartTime = new(writeTime(from.GetStartTime()))
	}
}

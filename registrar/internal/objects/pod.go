package objects

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"net/netip"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registrar/source"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Builder builds the objects of workloads. Its fields are the same for all objects of a registrar.
type Builder struct {
	Node string
	// NodeAddresses are the configured addresses of the node, its main one first. They are empty if the
	// addresses count that the node's agent reports.
	NodeAddresses []netip.Addr
	// Owner is the path of the registrar's identity, such as registrar/n1.
	Owner string
	// Namespace is the namespace of workloads that name none.
	Namespace string
}

// maxPodName limits the name of the service within a pod's name, which has at most 63 bytes because it is a
// hostname.
const maxPodName = 63 - 1 - 2*hashBytes

const hashBytes = 5

// ServiceName returns the service of a workload.
func (b *Builder) ServiceName(w *source.Workload) object.Name {
	return object.Name{Namespace: cmp.Or(w.Namespace, b.Namespace), Name: w.Service}
}

// PodName returns the name of a workload's pod.
func (b *Builder) PodName(from string, w *source.Workload) object.Name {
	service := b.ServiceName(w)
	sum := sha256.Sum256([]byte(b.Node + "\x00" + from + "\x00" + w.ID))
	return object.Name{
		Namespace: service.Namespace,
		Name:      strings.TrimRight(service.Name[:min(len(service.Name), maxPodName)], "-") + "-" + hex.EncodeToString(sum[:hashBytes]),
	}
}

// Pod returns the pod of a workload, without conditions. service may be nil.
func (b *Builder) Pod(from string, w *source.Workload, service *corev1.Service) *corev1.Pod {
	name := b.PodName(from, w)
	labels := map[string]string{}
	maps.Copy(labels, w.Labels)
	maps.Copy(labels, service.GetSpec().GetSelector())
	labels[object.LabelService], labels[object.LabelSource] = w.Service, from
	pod := &corev1.Pod{
		Metadata: &corev1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name, Labels: labels, Annotations: map[string]string{object.AnnotationWorkload: b.Owner},
		},
		Spec: &corev1.PodSpec{
			NodeName: b.Node, HostNetwork: w.HostNetwork, Weight: w.Weight,
			Containers: []*corev1.Container{{Name: cmp.Or(spec.LabelFrom(w.Name, 63), "main"), Ports: ports(w.Ports), ReadinessProbe: w.Probe.CloneVT()}},
		},
		Status: &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIps: w.Addresses},
	}
	if len(w.Addresses) > 0 {
		pod.Status.PodIp = w.Addresses[0]
	}
	if w.HostNetwork && len(b.NodeAddresses) > 0 {
		pod.Status.HostIp = b.NodeAddresses[0].String()
	}
	if w.Drain > 0 {
		seconds := int64(math.Ceil(w.Drain.Seconds()))
		pod.Spec.TerminationGracePeriodSeconds = &seconds
	}
	if w.Probe == nil {
		pod.Spec.ReadinessGates = []*corev1.PodReadinessGate{{ConditionType: object.ConditionSourceReady}}
	}
	spec.DefaultPod(pod)
	return pod
}

func ports(ports []source.Port) []*corev1.ContainerPort {
	out := make([]*corev1.ContainerPort, 0, len(ports))
	for _, p := range ports {
		out = append(out, &corev1.ContainerPort{Name: p.Name, ContainerPort: int32(p.Number), Protocol: p.Protocol})
	}
	return out
}

// Merge returns the pod that replaces have in the registry. It keeps the conditions, annotations and
// finalizers that others wrote. It reports whether metadata or spec differ from have, and whether the status
// does.
func Merge(have, want *corev1.Pod, w *source.Workload) (merged *corev1.Pod, changed, statusChanged bool) {
	merged = have.CloneVT()
	merged.Metadata.Labels, merged.Spec = want.GetMetadata().GetLabels(), want.GetSpec()
	changed = !maps.Equal(merged.GetMetadata().GetLabels(), have.GetMetadata().GetLabels()) || !merged.GetSpec().EqualVT(have.GetSpec())
	if merged.Status == nil {
		merged.Status = &corev1.PodStatus{}
	}
	status := want.GetStatus()
	merged.Status.Phase, merged.Status.PodIp, merged.Status.PodIps = status.GetPhase(), status.GetPodIp(), status.GetPodIps()
	merged.Status.HostIp = status.GetHostIp()
	if w.Probe == nil {
		setSourceReady(merged.Status, w)
	}
	return merged, changed, !merged.GetStatus().EqualVT(have.GetStatus())
}

// setSourceReady writes the condition of a workload without a probe, from the readiness that its source
// reported.
func setSourceReady(status *corev1.PodStatus, w *source.Workload) {
	condition := object.Condition(status.GetConditions(), object.ConditionSourceReady)
	if condition == nil {
		condition = &corev1.Condition{Type: object.ConditionSourceReady}
		status.Conditions = append(status.Conditions, condition)
	}
	wanted, reason, message := corev1.ConditionStatus_CONDITION_STATUS_TRUE, "", ""
	if !w.Ready {
		wanted, reason, message = corev1.ConditionStatus_CONDITION_STATUS_FALSE, "NotReady", spec.ShortenMessage(w.Reason)
	}
	condition.Reason, condition.Message = reason, message
	if condition.GetStatus() != wanted {
		condition.Status, condition.LastTransitionTime = wanted, timestamppb.Now()
	}
}

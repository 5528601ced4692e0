package spec

import (
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// DefaultAffinitySeconds is the default timeout of ClientIP affinity, in seconds.
const DefaultAffinitySeconds = 10800

// setDefault sets a field that has its zero value.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// DefaultService sets the default values of a service, and clears sessionAffinityConfig unless the
// affinity is ClientIP.
func DefaultService(svc *corev1.Service) {
	if svc.Spec == nil {
		svc.Spec = &corev1.ServiceSpec{}
	}
	spec := svc.Spec
	setDefault(&spec.Type, corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP)
	for _, port := range spec.Ports {
		defaultServicePort(port)
	}
	defaultAffinity(spec)
	if ExternallyAccessible(svc) {
		setDefault(&spec.ExternalTrafficPolicy, corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER)
	}
	if !object.IsExternalName(svc) {
		setDefault(&spec.InternalTrafficPolicy, corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER)
	}
	if IsLoadBalancer(svc) {
		if spec.AllocateLoadBalancerNodePorts == nil {
			spec.AllocateLoadBalancerNodePorts = proto.Bool(true)
		}
		defaultIngress(svc.GetStatus())
	}
}

func defaultServicePort(port *corev1.ServicePort) {
	setDefault(&port.Protocol, corev1.Protocol_PROTOCOL_TCP)
	if port.TargetPort.GetNumber() == 0 && port.TargetPort.GetName() == "" {
		port.TargetPort = &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: port.Port}}
	}
}

func defaultAffinity(spec *corev1.ServiceSpec) {
	setDefault(&spec.SessionAffinity, corev1.SessionAffinity_SESSION_AFFINITY_NONE)
	switch spec.SessionAffinity {
	case corev1.SessionAffinity_SESSION_AFFINITY_NONE:
		spec.SessionAffinityConfig = nil
	case corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP:
		if client := spec.SessionAffinityConfig.GetClientIp(); client == nil || client.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIp: &corev1.ClientIPConfig{TimeoutSeconds: proto.Int32(DefaultAffinitySeconds)},
			}
		}
	}
}

func defaultIngress(status *corev1.ServiceStatus) {
	for _, ingress := range status.GetLoadBalancer().GetIngress() {
		if ingress.GetIp() != "" {
			setDefault(&ingress.IpMode, corev1.IPMode_IP_MODE_VIP)
		}
	}
}

// DefaultEndpointSlice sets the default values of an EndpointSlice.
func DefaultEndpointSlice(slice *corev1.EndpointSlice) {
	for _, port := range slice.Ports {
		setDefault(&port.Protocol, corev1.Protocol_PROTOCOL_TCP)
		if port.Name == nil {
			port.Name = proto.String("")
		}
	}
}

// DefaultEndpoints sets the default values of an Endpoints.
func DefaultEndpoints(endpoints *corev1.Endpoints) {
	for _, subset := range endpoints.Subsets {
		for _, port := range subset.Ports {
			setDefault(&port.Protocol, corev1.Protocol_PROTOCOL_TCP)
		}
	}
}

// DefaultPod sets the default values of a pod.
func DefaultPod(pod *corev1.Pod) {
	if pod.Spec == nil {
		pod.Spec = &corev1.PodSpec{}
	}
	if pod.Spec.EnableServiceLinks == nil {
		pod.Spec.EnableServiceLinks = proto.Bool(true)
	}
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		pod.Spec.TerminationGracePeriodSeconds = proto.Int64(30)
	}
	setDefault(&pod.Spec.RestartPolicy, "Always")
	for _, containers := range [][]*corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, container := range containers {
			for _, port := range container.Ports {
				setDefault(&port.Protocol, corev1.Protocol_PROTOCOL_TCP)
			}
			if container.ReadinessProbe != nil {
				DefaultProbe(container.ReadinessProbe)
			}
		}
	}
	defaultPodStatus(pod)
}

// DefaultProbe sets the default values of a probe.
func DefaultProbe(probe *corev1.Probe) {
	setDefault(&probe.TimeoutSeconds, 1)
	setDefault(&probe.PeriodSeconds, 10)
	setDefault(&probe.SuccessThreshold, 1)
	setDefault(&probe.FailureThreshold, 3)
	if get := probe.GetHttpGet(); get != nil {
		setDefault(&get.Path, "/")
		setDefault(&get.Scheme, "HTTP")
	}
}

// defaultPodStatus sets podIP from podIPs or podIPs from podIP if only one of them is given.
func defaultPodStatus(pod *corev1.Pod) {
	if pod.Status == nil {
		pod.Status = &corev1.PodStatus{}
	}
	status := pod.Status
	setDefault(&status.Phase, corev1.PodPhase_POD_PHASE_PENDING)
	status.PodIp, status.PodIps = completePair(status.PodIp, status.PodIps)
}

// DefaultNode sets the default values of a node: podCIDR from podCIDRs or podCIDRs from podCIDR if
// only one of them is given.
func DefaultNode(node *corev1.Node) {
	if node.Spec == nil {
		node.Spec = &corev1.NodeSpec{}
	}
	node.Spec.PodCidr, node.Spec.PodCidrs = completePair(node.Spec.PodCidr, node.Spec.PodCidrs)
}

func completePair(first string, all []string) (string, []string) {
	switch {
	case first == "" && len(all) > 0:
		return all[0], all
	case first != "" && len(all) == 0:
		return first, []string{first}
	}
	return first, all
}

// DefaultNamespace sets the default values of a namespace.
func DefaultNamespace(namespace *corev1.Namespace) {
	if namespace.Status == nil {
		namespace.Status = &corev1.NamespaceStatus{}
	}
	setDefault(&namespace.Status.Phase, corev1.NamespacePhase_NAMESPACE_PHASE_ACTIVE)
}

// DefaultLease sets the default values of a lease.
func DefaultLease(lease *corev1.Lease) {
	if lease.Spec == nil {
		lease.Spec = &corev1.LeaseSpec{}
	}
}

// DefaultEvent sets the default values of an event.
func DefaultEvent(event *corev1.Event) {
	setDefault(&event.Type, corev1.EventType_EVENT_TYPE_NORMAL)
}

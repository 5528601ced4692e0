package manifest

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/manifest/kube"
	"portolan.dev/services/spec"
)

func (r *reader) service(from *kube.Service) *corev1.Service {
	to := &corev1.Service{Metadata: r.meta(from.ObjectMeta), Spec: r.serviceSpec(&from.Spec), Status: r.serviceStatus(&from.Status)}
	if word, ok := takeAnnotation(to.Metadata, AnnotationScheduler); ok {
		to.Spec.Scheduler = readEnum[corev1.Scheduler](r, annotationPath(AnnotationScheduler), word)
	}
	if flags, ok := takeAnnotation(to.Metadata, AnnotationSchedulerFlags); ok {
		for flag := range strings.SplitSeq(flags, ",") {
			to.Spec.SchedulerFlags = append(to.Spec.SchedulerFlags, strings.TrimSpace(flag))
		}
	}
	if seconds := r.takeNumber(to.Metadata, AnnotationDrainTimeout, math.MaxInt32); seconds != nil {
		to.Spec.DrainTimeoutSeconds = new(int32(*seconds))
	}
	return to
}

func (r *reader) serviceSpec(from *kube.ServiceSpec) *corev1.ServiceSpec {
	to := &corev1.ServiceSpec{
		Selector:                      nonEmpty(from.Selector),
		ClusterIp:                     from.ClusterIP,
		ClusterIps:                    from.ClusterIPs,
		Type:                          readEnum[corev1.ServiceType](r, "spec.type", from.Type),
		ExternalIps:                   from.ExternalIPs,
		SessionAffinity:               readEnum[corev1.SessionAffinity](r, "spec.sessionAffinity", from.SessionAffinity),
		LoadBalancerIp:                from.LoadBalancerIP,
		LoadBalancerSourceRanges:      from.LoadBalancerSourceRanges,
		ExternalName:                  from.ExternalName,
		ExternalTrafficPolicy:         readEnum[corev1.TrafficPolicy](r, "spec.externalTrafficPolicy", from.ExternalTrafficPolicy),
		HealthCheckNodePort:           from.HealthCheckNodePort,
		PublishNotReadyAddresses:      from.PublishNotReadyAddresses,
		AllocateLoadBalancerNodePorts: from.AllocateLoadBalancerNodePorts,
		LoadBalancerClass:             from.LoadBalancerClass,
		IpFamilyPolicy:                readEnum[corev1.IPFamilyPolicy](r, "spec.ipFamilyPolicy", value(from.IPFamilyPolicy)),
		InternalTrafficPolicy:         readEnum[corev1.TrafficPolicy](r, "spec.internalTrafficPolicy", value(from.InternalTrafficPolicy)),
		TrafficDistribution:           readEnum[corev1.TrafficDistribution](r, "spec.trafficDistribution", value(from.TrafficDistribution)),
	}
	to.IpFamilies = each(from.IPFamilies, func(i int, family kube.IPFamily) corev1.IPFamily {
		return readEnum[corev1.IPFamily](r, fmt.Sprintf("spec.ipFamilies[%d]", i), family)
	})
	to.Ports = each(from.Ports, func(i int, port kube.ServicePort) *corev1.ServicePort {
		return &corev1.ServicePort{
			Name: port.Name, AppProtocol: port.AppProtocol, Port: port.Port, NodePort: port.NodePort, TargetPort: readPort(port.TargetPort),
			Protocol: readEnum[corev1.Protocol](r, fmt.Sprintf("spec.ports[%d].protocol", i), port.Protocol),
		}
	})
	if from.SessionAffinityConfig != nil {
		to.SessionAffinityConfig = &corev1.SessionAffinityConfig{}
		if client := from.SessionAffinityConfig.ClientIP; client != nil {
			to.SessionAffinityConfig.ClientIp = &corev1.ClientIPConfig{TimeoutSeconds: client.TimeoutSeconds}
		}
	}
	return to
}

func (r *reader) serviceStatus(from *kube.ServiceStatus) *corev1.ServiceStatus {
	to := &corev1.ServiceStatus{}
	to.Conditions = each(from.Conditions, func(i int, condition kube.Condition) *corev1.Condition {
		return &corev1.Condition{
			Type: condition.Type, ObservedGeneration: condition.ObservedGeneration, Reason: condition.Reason, Message: condition.Message,
			Status:             readEnum[corev1.ConditionStatus](r, fmt.Sprintf("status.conditions[%d].status", i), condition.Status),
			LastTransitionTime: readTime(condition.LastTransitionTime),
		}
	})
	ingress := each(from.LoadBalancer.Ingress, r.ingress)
	if ingress != nil {
		to.LoadBalancer = &corev1.LoadBalancerStatus{Ingress: ingress}
	}
	if to.Conditions == nil && to.LoadBalancer == nil {
		return nil
	}
	return to
}

func (r *reader) ingress(i int, from kube.LoadBalancerIngress) *corev1.LoadBalancerIngress {
	path := fmt.Sprintf("status.loadBalancer.ingress[%d]", i)
	return &corev1.LoadBalancerIngress{
		Ip: from.IP, Hostname: from.Hostname, IpMode: readEnum[corev1.IPMode](r, path+".ipMode", value(from.IPMode)),
		Ports: each(from.Ports, func(j int, port kube.PortStatus) *corev1.PortStatus {
			return &corev1.PortStatus{
				Port: port.Port, Error: port.Error,
				Protocol: readEnum[corev1.Protocol](r, fmt.Sprintf("%s.ports[%d].protocol", path, j), port.Protocol),
			}
		}),
	}
}

func writeService(from *corev1.Service, to *kube.Service) {
	to.ObjectMeta = writeMeta(from.GetMetadata())
	writeServiceSpec(from.GetSpec(), &to.Spec)
	writeServiceStatus(from.GetStatus(), &to.Status)
	put(&to.ObjectMeta, AnnotationScheduler, spec.EnumName(from.GetSpec().GetScheduler()))
	put(&to.ObjectMeta, AnnotationSchedulerFlags, strings.Join(from.GetSpec().GetSchedulerFlags(), ","))
	if s := from.GetSpec(); s != nil && s.DrainTimeoutSeconds != nil {
		put(&to.ObjectMeta, AnnotationDrainTimeout, strconv.Itoa(int(*s.DrainTimeoutSeconds)))
	}
}

func writeServiceSpec(from *corev1.ServiceSpec, to *kube.ServiceSpec) {
	if from == nil {
		return
	}
	*to = kube.ServiceSpec{
		Selector:                      nonEmpty(from.GetSelector()),
		ClusterIP:                     from.GetClusterIp(),
		ClusterIPs:                    from.GetClusterIps(),
		Type:                          kube.ServiceType(spec.EnumName(from.GetType())),
		ExternalIPs:                   from.GetExternalIps(),
		SessionAffinity:               kube.ServiceAffinity(spec.EnumName(from.GetSessionAffinity())),
		LoadBalancerIP:                from.GetLoadBalancerIp(),
		LoadBalancerSourceRanges:      from.GetLoadBalancerSourceRanges(),
		ExternalName:                  from.GetExternalName(),
		ExternalTrafficPolicy:         kube.ServiceExternalTrafficPolicy(spec.EnumName(from.GetExternalTrafficPolicy())),
		HealthCheckNodePort:           from.GetHealthCheckNodePort(),
		PublishNotReadyAddresses:      from.GetPublishNotReadyAddresses(),
		AllocateLoadBalancerNodePorts: from.AllocateLoadBalancerNodePorts,
		LoadBalancerClass:             from.LoadBalancerClass,
		IPFamilyPolicy:                enumPointer[kube.IPFamilyPolicy](from.GetIpFamilyPolicy()),
		InternalTrafficPolicy:         enumPointer[kube.ServiceInternalTrafficPolicy](from.GetInternalTrafficPolicy()),
		TrafficDistribution:           enumPointer[string](from.GetTrafficDistribution()),
	}
	to.IPFamilies = each(from.GetIpFamilies(), func(_ int, family corev1.IPFamily) kube.IPFamily {
		return kube.IPFamily(spec.EnumName(family))
	})
	to.Ports = each(from.GetPorts(), func(_ int, port *corev1.ServicePort) kube.ServicePort {
		return kube.ServicePort{
			Name: port.GetName(), AppProtocol: port.AppProtocol, Port: port.GetPort(), NodePort: port.GetNodePort(),
			TargetPort: writePort(port.GetTargetPort()), Protocol: kube.Protocol(spec.EnumName(port.GetProtocol())),
		}
	})
	if config := from.GetSessionAffinityConfig(); config != nil {
		to.SessionAffinityConfig = &kube.SessionAffinityConfig{}
		if client := config.GetClientIp(); client != nil {
			to.SessionAffinityConfig.ClientIP = &kube.ClientIPConfig{TimeoutSeconds: client.TimeoutSeconds}
		}
	}
}

func writeServiceStatus(from *corev1.ServiceStatus, to *kube.ServiceStatus) {
	to.Conditions = each(from.GetConditions(), func(_ int, condition *corev1.Condition) kube.Condition {
		return kube.Condition{
			Type: condition.GetType(), ObservedGeneration: condition.GetObservedGeneration(), Reason: condition.GetReason(), Message: condition.GetMessage(),
			Status: kube.MetaConditionStatus(spec.EnumName(condition.GetStatus())), LastTransitionTime: writeTime(condition.GetLastTransitionTime()),
		}
	})
	to.LoadBalancer.Ingress = each(from.GetLoadBalancer().GetIngress(), func(_ int, ingress *corev1.LoadBalancerIngress) kube.LoadBalancerIngress {
		return kube.LoadBalancerIngress{
			IP: ingress.GetIp(), Hostname: ingress.GetHostname(), IPMode: enumPointer[kube.LoadBalancerIPMode](ingress.GetIpMode()),
			Ports: each(ingress.GetPorts(), func(_ int, port *corev1.PortStatus) kube.PortStatus {
				return kube.PortStatus{Port: port.GetPort(), Error: port.Error, Protocol: kube.Protocol(spec.EnumName(port.GetProtocol()))}
			}),
		}
	})
}

// readPort reads a port by number or name. It returns nil for values that Kubernetes does not
// distinguish from an absent port.
func readPort(from kube.IntOrString) *corev1.IntOrString {
	switch {
	case from.Text != "":
		return &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: from.Text}}
	case from.Number != 0:
		return &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: from.Number}}
	default:
		return nil
	}
}

func writePort(from *corev1.IntOrString) kube.IntOrString {
	if from.GetName() != "" {
		return kube.IntOrString{Text: from.GetName()}
	}
	return kube.IntOrString{Number: from.GetNumber()}
}

// value returns the value that a pointer points to, or the zero value if it is nil.
func value[T any](from *T) T {
	if from == nil {
		var zero T
		return zero
	}
	return *from
}

// enumPointer returns the word of an enum for a pointer field of Kubernetes. It returns nil for the
// unspecified value.
func enumPointer[W ~string, E spec.Enum](from E) *W {
	if from == 0 {
		return nil
	}
	return new(W(spec.EnumName(from)))
}

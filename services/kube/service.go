package kube

import (
	"math"
	"strconv"
	"strings"

	kubev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

func (r *reader) service(from *kubev1.Service) *corev1.Service {
	to := &corev1.Service{Metadata: r.meta(&from.ObjectMeta), Spec: r.serviceSpec(&from.Spec), Status: r.serviceStatus(&from.Status)}
	if word, ok := takeAnnotation(to.Metadata, AnnotationScheduler); ok {
		to.Spec.Scheduler = readEnum[corev1.Scheduler](r, annotationPath(AnnotationScheduler), word)
	}
	if flags, ok := takeAnnotation(to.Metadata, AnnotationSchedulerFlags); ok {
		for flag := range strings.SplitSeq(flags, ",") {
			to.Spec.SchedulerFlags = append(to.Spec.SchedulerFlags, strings.TrimSpace(flag))
		}
	}
	if seconds := r.takeNumber(to.Metadata, AnnotationDrainTimeout, math.MaxInt32); seconds != nil {
		to.Spec.DrainTimeoutSeconds = new(int32(*seconds)) // #nosec G115 -- takeNumber has the limit
	}
	return to
}

func (r *reader) serviceSpec(from *kubev1.ServiceSpec) *corev1.ServiceSpec {
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
	to.IpFamilies = each(from.IPFamilies, func(i int, family kubev1.IPFamily) corev1.IPFamily {
		return readEnum[corev1.IPFamily](r, at("spec.ipFamilies", i), family)
	})
	to.Ports = each(from.Ports, func(i int, port kubev1.ServicePort) *corev1.ServicePort {
		return &corev1.ServicePort{
			Name: port.Name, AppProtocol: port.AppProtocol, Port: port.Port, NodePort: port.NodePort, TargetPort: readPort(port.TargetPort),
			Protocol: readEnum[corev1.Protocol](r, at("spec.ports", i)+".protocol", port.Protocol),
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

func (r *reader) serviceStatus(from *kubev1.ServiceStatus) *corev1.ServiceStatus {
	to := &corev1.ServiceStatus{}
	to.Conditions = each(from.Conditions, func(i int, condition metav1.Condition) *corev1.Condition {
		return &corev1.Condition{
			Type: condition.Type, ObservedGeneration: condition.ObservedGeneration, Reason: condition.Reason, Message: condition.Message,
			Status:             readEnum[corev1.ConditionStatus](r, at("status.conditions", i)+".status", condition.Status),
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

func (r *reader) ingress(i int, from kubev1.LoadBalancerIngress) *corev1.LoadBalancerIngress {
	path := at("status.loadBalancer.ingress", i)
	return &corev1.LoadBalancerIngress{
		Ip: from.IP, Hostname: from.Hostname, IpMode: readEnum[corev1.IPMode](r, path+".ipMode", value(from.IPMode)),
		Ports: each(from.Ports, func(j int, port kubev1.PortStatus) *corev1.PortStatus {
			return &corev1.PortStatus{
				Port: port.Port, Error: port.Error,
				Protocol: readEnum[corev1.Protocol](r, at(path+".ports", j)+".protocol", port.Protocol),
			}
		}),
	}
}

func writeService(from *corev1.Service, to *kubev1.Service) {
	to.ObjectMeta = WriteMeta(from.GetMetadata())
	writeServiceSpec(from.GetSpec(), &to.Spec)
	writeServiceStatus(from.GetStatus(), &to.Status)
	put(&to.ObjectMeta, AnnotationScheduler, spec.EnumName(from.GetSpec().GetScheduler()))
	put(&to.ObjectMeta, AnnotationSchedulerFlags, strings.Join(from.GetSpec().GetSchedulerFlags(), ","))
	if s := from.GetSpec(); s != nil && s.DrainTimeoutSeconds != nil {
		put(&to.ObjectMeta, AnnotationDrainTimeout, strconv.Itoa(int(*s.DrainTimeoutSeconds)))
	}
}

func writeServiceSpec(from *corev1.ServiceSpec, to *kubev1.ServiceSpec) {
	if from == nil {
		return
	}
	*to = kubev1.ServiceSpec{
		Selector:                      nonEmpty(from.GetSelector()),
		ClusterIP:                     from.GetClusterIp(),
		ClusterIPs:                    from.GetClusterIps(),
		Type:                          kubev1.ServiceType(spec.EnumName(from.GetType())),
		ExternalIPs:                   from.GetExternalIps(),
		SessionAffinity:               kubev1.ServiceAffinity(spec.EnumName(from.GetSessionAffinity())),
		LoadBalancerIP:                from.GetLoadBalancerIp(),
		LoadBalancerSourceRanges:      from.GetLoadBalancerSourceRanges(),
		ExternalName:                  from.GetExternalName(),
		ExternalTrafficPolicy:         kubev1.ServiceExternalTrafficPolicy(spec.EnumName(from.GetExternalTrafficPolicy())),
		HealthCheckNodePort:           from.GetHealthCheckNodePort(),
		PublishNotReadyAddresses:      from.GetPublishNotReadyAddresses(),
		AllocateLoadBalancerNodePorts: from.AllocateLoadBalancerNodePorts,
		LoadBalancerClass:             from.LoadBalancerClass,
		IPFamilyPolicy:                enumPointer[kubev1.IPFamilyPolicy](from.GetIpFamilyPolicy()),
		InternalTrafficPolicy:         enumPointer[kubev1.ServiceInternalTrafficPolicy](from.GetInternalTrafficPolicy()),
		TrafficDistribution:           enumPointer[string](from.GetTrafficDistribution()),
	}
	to.IPFamilies = each(from.GetIpFamilies(), func(_ int, family corev1.IPFamily) kubev1.IPFamily {
		return kubev1.IPFamily(spec.EnumName(family))
	})
	to.Ports = each(from.GetPorts(), func(_ int, port *corev1.ServicePort) kubev1.ServicePort {
		return kubev1.ServicePort{
			Name: port.GetName(), AppProtocol: port.AppProtocol, Port: port.GetPort(), NodePort: port.GetNodePort(),
			TargetPort: writePort(port.GetTargetPort()), Protocol: kubev1.Protocol(spec.EnumName(port.GetProtocol())),
		}
	})
	if config := from.GetSessionAffinityConfig(); config != nil {
		to.SessionAffinityConfig = &kubev1.SessionAffinityConfig{}
		if client := config.GetClientIp(); client != nil {
			to.SessionAffinityConfig.ClientIP = &kubev1.ClientIPConfig{TimeoutSeconds: client.TimeoutSeconds}
		}
	}
}

func writeServiceStatus(from *corev1.ServiceStatus, to *kubev1.ServiceStatus) {
	to.Conditions = each(from.GetConditions(), func(_ int, condition *corev1.Condition) metav1.Condition {
		return metav1.Condition{
			Type: condition.GetType(), ObservedGeneration: condition.GetObservedGeneration(), Reason: condition.GetReason(), Message: condition.GetMessage(),
			Status: metav1.ConditionStatus(spec.EnumName(condition.GetStatus())), LastTransitionTime: writeTime(condition.GetLastTransitionTime()),
		}
	})
	to.LoadBalancer.Ingress = each(from.GetLoadBalancer().GetIngress(), func(_ int, ingress *corev1.LoadBalancerIngress) kubev1.LoadBalancerIngress {
		return kubev1.LoadBalancerIngress{
			IP: ingress.GetIp(), Hostname: ingress.GetHostname(), IPMode: enumPointer[kubev1.LoadBalancerIPMode](ingress.GetIpMode()),
			Ports: each(ingress.GetPorts(), func(_ int, port *corev1.PortStatus) kubev1.PortStatus {
				return kubev1.PortStatus{Port: port.GetPort(), Error: port.Error, Protocol: kubev1.Protocol(spec.EnumName(port.GetProtocol()))}
			}),
		}
	})
}

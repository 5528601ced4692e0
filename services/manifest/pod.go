package manifest

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/manifest/kube"
	"portolan.dev/services/spec"
)

func (r *reader) pod(from *kube.Pod) *corev1.Pod {
	s := &from.Spec
	to := &corev1.Pod{Metadata: r.meta(from.ObjectMeta), Status: r.podStatus(&from.Status), Spec: &corev1.PodSpec{
		NodeName: s.NodeName, Hostname: s.Hostname, Subdomain: s.Subdomain, HostNetwork: s.HostNetwork,
		EnableServiceLinks: s.EnableServiceLinks, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		RestartPolicy: string(s.RestartPolicy),
		ReadinessGates: each(s.ReadinessGates, func(_ int, gate kube.PodReadinessGate) *corev1.PodReadinessGate {
			return &corev1.PodReadinessGate{ConditionType: string(gate.ConditionType)}
		}),
		Containers:     r.containers("spec.containers", s.Containers),
		InitContainers: r.containers("spec.initContainers", s.InitContainers),
	}}
	r.readinessTTLs(to)
	if weight := r.takeNumber(to.Metadata, AnnotationWeight, maxWeight); weight != nil {
		to.Spec.Weight = new(uint32(*weight))
	}
	return to
}

func (r *reader) containers(path string, from []kube.Container) []*corev1.Container {
	return each(from, func(i int, container kube.Container) *corev1.Container {
		to := &corev1.Container{
			Name: container.Name, Image: container.Image, Command: container.Command, Args: container.Args,
			ReadinessProbe: readProbe(container.ReadinessProbe),
			Ports: each(container.Ports, func(j int, port kube.ContainerPort) *corev1.ContainerPort {
				return &corev1.ContainerPort{
					Name: port.Name, ContainerPort: port.ContainerPort, HostPort: port.HostPort, HostIp: port.HostIP,
					Protocol: readEnum[corev1.Protocol](r, fmt.Sprintf("%s[%d].ports[%d].protocol", path, i, j), port.Protocol),
				}
			}),
		}
		for _, env := range container.Env {
			// A value that only Kubernetes can look up is left out, because it would otherwise be
			// empty.
			if env.ValueFrom == nil {
				to.Env = append(to.Env, &corev1.EnvVar{Name: env.Name, Value: env.Value})
			}
		}
		if container.RestartPolicy != nil {
			to.RestartPolicy = new(string(*container.RestartPolicy))
		}
		return to
	})
}

func (r *reader) podStatus(from *kube.PodStatus) *corev1.PodStatus {
	to := &corev1.PodStatus{
		Phase: readEnum[corev1.PodPhase](r, "status.phase", from.Phase), Reason: from.Reason, Message: from.Message,
		PodIp: from.PodIP, HostIp: from.HostIP,
		PodIps: each(from.PodIPs, func(_ int, ip kube.PodIP) string { return ip.IP }),
		Conditions: each(from.Conditions, func(i int, condition kube.PodCondition) *corev1.Condition {
			return &corev1.Condition{
				Type: string(condition.Type), ObservedGeneration: condition.ObservedGeneration, Reason: condition.Reason, Message: condition.Message,
				Status:             readEnum[corev1.ConditionStatus](r, fmt.Sprintf("status.conditions[%d].status", i), condition.Status),
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

func writePod(from *corev1.Pod, to *kube.Pod) {
	to.ObjectMeta = writeMeta(from.GetMetadata())
	writePodStatus(from.GetStatus(), &to.Status)
	s := from.GetSpec()
	if s == nil {
		return
	}
	to.Spec = kube.PodSpec{
		NodeName: s.GetNodeName(), Hostname: s.GetHostname(), Subdomain: s.GetSubdomain(), HostNetwork: s.GetHostNetwork(),
		EnableServiceLinks: s.EnableServiceLinks, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		RestartPolicy: kube.RestartPolicy(s.GetRestartPolicy()),
		ReadinessGates: each(s.GetReadinessGates(), func(_ int, gate *corev1.PodReadinessGate) kube.PodReadinessGate {
			return kube.PodReadinessGate{ConditionType: kube.PodConditionType(gate.GetConditionType())}
		}),
		Containers:     each(s.GetContainers(), writeContainer),
		InitContainers: each(s.GetInitContainers(), writeContainer),
	}
	writeReadinessTTLs(&to.ObjectMeta, s)
	if s.Weight != nil {
		put(&to.ObjectMeta, AnnotationWeight, strconv.Itoa(int(*s.Weight)))
	}
}

func writeContainer(_ int, from *corev1.Container) kube.Container {
	to := kube.Container{
		Name: from.GetName(), Image: from.GetImage(), Command: slices.Clone(from.GetCommand()), Args: slices.Clone(from.GetArgs()),
		ReadinessProbe: writeProbe(from.GetReadinessProbe()),
		Env: each(from.GetEnv(), func(_ int, env *corev1.EnvVar) kube.EnvVar {
			return kube.EnvVar{Name: env.GetName(), Value: env.GetValue()}
		}),
		Ports: each(from.GetPorts(), func(_ int, port *corev1.ContainerPort) kube.ContainerPort {
			return kube.ContainerPort{
				Name: port.GetName(), ContainerPort: port.GetContainerPort(), HostPort: port.GetHostPort(), HostIP: port.GetHostIp(),
				Protocol: kube.Protocol(spec.EnumName(port.GetProtocol())),
			}
		}),
	}
	if from.RestartPolicy != nil {
		to.RestartPolicy = new(kube.ContainerRestartPolicy(*from.RestartPolicy))
	}
	return to
}

func writePodStatus(from *corev1.PodStatus, to *kube.PodStatus) {
	*to = kube.PodStatus{
		Phase: kube.PodPhase(spec.EnumName(from.GetPhase())), Reason: from.GetReason(), Message: from.GetMessage(),
		PodIP: from.GetPodIp(), HostIP: from.GetHostIp(),
		PodIPs: each(from.GetPodIps(), func(_ int, ip string) kube.PodIP { return kube.PodIP{IP: ip} }),
		Conditions: each(from.GetConditions(), func(_ int, condition *corev1.Condition) kube.PodCondition {
			return kube.PodCondition{
				Type: kube.PodConditionType(condition.GetType()), Status: kube.ConditionStatus(spec.EnumName(condition.GetStatus())),
				ObservedGeneration: condition.GetObservedGeneration(), Reason: condition.GetReason(), Message: condition.GetMessage(),
				LastTransitionTime: writeTime(condition.GetLastTransitionTime()), LastProbeTime: writeTime(condition.GetLastProbeTime()),
			}
		}),
	}
	if from.GetStartTime() != nil {
		to.StartTime = new(writeTime(from.GetStartTime()))
	}
}

// readProbe reads a probe. Its handler is nil for a ttl check, which readinessTTLs reads.
func readProbe(from *kube.Probe) *corev1.Probe {
	if from == nil {
		return nil
	}
	to := &corev1.Probe{
		InitialDelaySeconds: from.InitialDelaySeconds, TimeoutSeconds: from.TimeoutSeconds, PeriodSeconds: from.PeriodSeconds,
		SuccessThreshold: from.SuccessThreshold, FailureThreshold: from.FailureThreshold,
	}
	switch {
	case from.TCPSocket != nil:
		to.Handler = &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Port: readPort(from.TCPSocket.Port), Host: from.TCPSocket.Host}}
	case from.HTTPGet != nil:
		to.Handler = &corev1.Probe_HttpGet{HttpGet: &corev1.HTTPGetAction{
			Path: from.HTTPGet.Path, Port: readPort(from.HTTPGet.Port), Host: from.HTTPGet.Host, Scheme: string(from.HTTPGet.Scheme),
			HttpHeaders: each(from.HTTPGet.HTTPHeaders, func(_ int, header kube.HTTPHeader) *corev1.HTTPHeader {
				return &corev1.HTTPHeader{Name: header.Name, Value: header.Value}
			}),
		}}
	case from.GRPC != nil:
		to.Handler = &corev1.Probe_Grpc{Grpc: &corev1.GRPCAction{Port: from.GRPC.Port, Service: from.GRPC.Service}}
	case from.Exec != nil:
		to.Handler = &corev1.Probe_Exec{Exec: &corev1.ExecAction{Command: from.Exec.Command}}
	}
	return to
}

func writeProbe(from *corev1.Probe) *kube.Probe {
	if from == nil {
		return nil
	}
	to := &kube.Probe{
		InitialDelaySeconds: from.GetInitialDelaySeconds(), TimeoutSeconds: from.GetTimeoutSeconds(), PeriodSeconds: from.GetPeriodSeconds(),
		SuccessThreshold: from.GetSuccessThreshold(), FailureThreshold: from.GetFailureThreshold(),
	}
	switch handler := from.GetHandler().(type) {
	case *corev1.Probe_TcpSocket:
		to.TCPSocket = &kube.TCPSocketAction{Port: writePort(handler.TcpSocket.GetPort()), Host: handler.TcpSocket.GetHost()}
	case *corev1.Probe_HttpGet:
		to.HTTPGet = &kube.HTTPGetAction{
			Path: handler.HttpGet.GetPath(), Port: writePort(handler.HttpGet.GetPort()), Host: handler.HttpGet.GetHost(),
			Scheme: kube.URIScheme(handler.HttpGet.GetScheme()),
			HTTPHeaders: each(handler.HttpGet.GetHttpHeaders(), func(_ int, header *corev1.HTTPHeader) kube.HTTPHeader {
				return kube.HTTPHeader{Name: header.GetName(), Value: header.GetValue()}
			}),
		}
	case *corev1.Probe_Grpc:
		to.GRPC = &kube.GRPCAction{Port: handler.Grpc.GetPort(), Service: handler.Grpc.Service}
	case *corev1.Probe_Exec:
		to.Exec = &kube.ExecAction{Command: slices.Clone(handler.Exec.GetCommand())}
	}
	return to
}

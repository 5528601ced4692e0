package kube

import (
	"slices"

	kubev1 "k8s.io/api/core/v1"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

func (r *reader) containers(path string, from []kubev1.Container) []*corev1.Container {
	return each(from, func(i int, container kubev1.Container) *corev1.Container {
		to := &corev1.Container{
			Name: container.Name, Image: container.Image, Command: container.Command, Args: container.Args,
			ReadinessProbe: readProbe(container.ReadinessProbe),
			Ports: each(container.Ports, func(j int, port kubev1.ContainerPort) *corev1.ContainerPort {
				return &corev1.ContainerPort{
					Name: port.Name, ContainerPort: port.ContainerPort, HostPort: port.HostPort, HostIp: port.HostIP,
					Protocol: readEnum[corev1.Protocol](r, at(at(path, i)+".ports", j)+".protocol", port.Protocol),
				}
			}),
		}
		for _, env := range container.Env {
			// Only Kubernetes can look up a value from another object. The variable is left out,
			// because it would otherwise be empty.
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

func writeContainer(_ int, from *corev1.Container) kubev1.Container {
	to := kubev1.Container{
		Name: from.GetName(), Image: from.GetImage(), Command: slices.Clone(from.GetCommand()), Args: slices.Clone(from.GetArgs()),
		ReadinessProbe: writeProbe(from.GetReadinessProbe()),
		Env: each(from.GetEnv(), func(_ int, env *corev1.EnvVar) kubev1.EnvVar {
			return kubev1.EnvVar{Name: env.GetName(), Value: env.GetValue()}
		}),
		Ports: each(from.GetPorts(), func(_ int, port *corev1.ContainerPort) kubev1.ContainerPort {
			return kubev1.ContainerPort{
				Name: port.GetName(), ContainerPort: port.GetContainerPort(), HostPort: port.GetHostPort(), HostIP: port.GetHostIp(),
				Protocol: kubev1.Protocol(spec.EnumName(port.GetProtocol())),
			}
		}),
	}
	if from.RestartPolicy != nil {
		to.RestartPolicy = new(kubev1.ContainerRestartPolicy(*from.RestartPolicy))
	}
	return to
}

// readProbe reads a probe. The handler of a ttl check stays nil, and readinessTTLs sets it.
func readProbe(from *kubev1.Probe) *corev1.Probe {
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
			HttpHeaders: each(from.HTTPGet.HTTPHeaders, func(_ int, header kubev1.HTTPHeader) *corev1.HTTPHeader {
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

func writeProbe(from *corev1.Probe) *kubev1.Probe {
	if from == nil {
		return nil
	}
	to := &kubev1.Probe{
		InitialDelaySeconds: from.GetInitialDelaySeconds(), TimeoutSeconds: from.GetTimeoutSeconds(), PeriodSeconds: from.GetPeriodSeconds(),
		SuccessThreshold: from.GetSuccessThreshold(), FailureThreshold: from.GetFailureThreshold(),
	}
	switch handler := from.GetHandler().(type) {
	case *corev1.Probe_TcpSocket:
		to.TCPSocket = &kubev1.TCPSocketAction{Port: writePort(handler.TcpSocket.GetPort()), Host: handler.TcpSocket.GetHost()}
	case *corev1.Probe_HttpGet:
		to.HTTPGet = &kubev1.HTTPGetAction{
			Path: handler.HttpGet.GetPath(), Port: writePort(handler.HttpGet.GetPort()), Host: handler.HttpGet.GetHost(),
			Scheme: kubev1.URIScheme(handler.HttpGet.GetScheme()),
			HTTPHeaders: each(handler.HttpGet.GetHttpHeaders(), func(_ int, header *corev1.HTTPHeader) kubev1.HTTPHeader {
				return kubev1.HTTPHeader{Name: header.GetName(), Value: header.GetValue()}
			}),
		}
	case *corev1.Probe_Grpc:
		to.GRPC = &kubev1.GRPCAction{Port: handler.Grpc.GetPort(), Service: handler.Grpc.Service}
	case *corev1.Probe_Exec:
		to.Exec = &kubev1.ExecAction{Command: slices.Clone(handler.Exec.GetCommand())}
	}
	return to
}

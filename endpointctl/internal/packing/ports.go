package packing

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

// restartAlways is the restart policy that makes an init container a sidecar. The ports of sidecars
// count.
const restartAlways = "Always"

// resolvePorts returns the ports that a pod has for a service, and those that it lacks.
func resolvePorts(svc *corev1.Service, pod *corev1.Pod) (ports []*corev1.EndpointPort, unresolved []string) {
	for _, p := range svc.GetSpec().GetPorts() {
		number, ok := resolve(p, pod)
		if !ok {
			unresolved = append(unresolved, fmt.Sprintf("%s: no container port of the name %q and protocol %s",
				portTitle(p), p.GetTargetPort().GetName(), spec.EnumName(protocol(p.GetProtocol()))))
			continue
		}
		name := p.GetName()
		ports = append(ports, &corev1.EndpointPort{Name: &name, Protocol: protocol(p.GetProtocol()), Port: &number, AppProtocol: p.AppProtocol})
	}
	return ports, unresolved
}

func portTitle(p *corev1.ServicePort) string {
	if p.GetName() != "" {
		return p.GetName()
	}
	return fmt.Sprint(p.GetPort())
}

// resolve returns the number of a service's port in a pod.
func resolve(p *corev1.ServicePort, pod *corev1.Pod) (number int32, ok bool) {
	name := p.GetTargetPort().GetName()
	if name == "" {
		if n := p.GetTargetPort().GetNumber(); n != 0 {
			return n, true
		}
		return p.GetPort(), true
	}
	for _, c := range pod.GetSpec().GetContainers() {
		if number, ok := containerPort(c, name, p.GetProtocol()); ok {
			return number, true
		}
	}
	for _, c := range pod.GetSpec().GetInitContainers() {
		if c.GetRestartPolicy() != restartAlways {
			continue
		}
		if number, ok := containerPort(c, name, p.GetProtocol()); ok {
			return number, true
		}
	}
	return 0, false
}

func containerPort(c *corev1.Container, name string, proto corev1.Protocol) (number int32, ok bool) {
	for _, p := range c.GetPorts() {
		if p.GetName() == name && protocol(p.GetProtocol()) == protocol(proto) {
			return p.GetContainerPort(), true
		}
	}
	return 0, false
}

func protocol(p corev1.Protocol) corev1.Protocol {
	if p == corev1.Protocol_PROTOCOL_UNSPECIFIED {
		return corev1.Protocol_PROTOCOL_TCP
	}
	return p
}

// portsKey returns a key that is equal for equal sets of ports in any order.
func portsKey(ports []*corev1.EndpointPort) string {
	texts := make([]string, len(ports))
	for i, p := range ports {
		number := int32(-1)
		if p.Port != nil {
			number = *p.Port
		}
		texts[i] = fmt.Sprintf("%q/%d/%d/%q", p.GetName(), protocol(p.GetProtocol()), number, p.GetAppProtocol())
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

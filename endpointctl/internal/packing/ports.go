package packing

import (
	"encoding/binary"
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

// podPorts are the ports that a pod has for a service. They are shared by all pods with the same ports.
type podPorts struct {
	list       []*corev1.EndpointPort
	key        string   // portsKey of list
	unresolved []string // ports that the pod lacks
}

// portResolver finds the ports of a service in its pods. Pods differ only in the ports with a named target port,
// so the work for each pod and its memory do not depend on the number of the other ports, of which a service may
// have thousands.
type portResolver struct {
	ports []*corev1.ServicePort
	named []*corev1.ServicePort // those with a named target port
	found map[string]*podPorts  // by the numbers of the named ports in a pod
}

func newPortResolver(svc *corev1.Service) *portResolver {
	r := &portResolver{ports: svc.GetSpec().GetPorts(), found: map[string]*podPorts{}}
	for _, p := range r.ports {
		if p.GetTargetPort().GetName() != "" {
			r.named = append(r.named, p)
		}
	}
	return r
}

// resolve returns the ports of a pod.
func (r *portResolver) resolve(pod *corev1.Pod) *podPorts {
	var numbers []byte
	for _, p := range r.named {
		number, _ := resolve(p, pod) // 0 if the pod lacks the port
		numbers = binary.AppendVarint(numbers, int64(number))
	}
	ports := r.found[string(numbers)]
	if ports == nil {
		ports = resolvePorts(r.ports, pod)
		r.found[string(numbers)] = ports
	}
	return ports
}

// resolvePorts returns those of a service's ports that a pod has.
func resolvePorts(all []*corev1.ServicePort, pod *corev1.Pod) *podPorts {
	ports := &podPorts{}
	for _, p := range all {
		number, ok := resolve(p, pod)
		if !ok {
			ports.unresolved = append(ports.unresolved, fmt.Sprintf("%s: no container port of the name %q and protocol %s",
				portTitle(p), p.GetTargetPort().GetName(), spec.EnumName(protocol(p.GetProtocol()))))
			continue
		}
		name := p.GetName()
		ports.list = append(ports.list, &corev1.EndpointPort{Name: &name, Protocol: protocol(p.GetProtocol()), Port: &number, AppProtocol: p.AppProtocol})
	}
	ports.key = portsKey(ports.list)
	return ports
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

package workload

import (
	"fmt"
	"maps"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// serviceName returns a service's name. The last two names are for services without a selector.
func (a *Actor) serviceName() string {
	n := a.random.IntN(serviceNames)
	if n >= serviceNames-2 {
		return fmt.Sprintf("%s%d", manualService, n)
	}
	return fmt.Sprintf("s%d", n)
}

// toggleService creates a service, or deletes it if it exists.
func (a *Actor) toggleService(name string) []Step {
	if svc := a.services[name]; svc != nil {
		return a.deleteService(svc)
	}
	return a.createService(a.newService(name))
}

// remakeService deletes a service and creates it again at once, mostly with its address.
func (a *Actor) remakeService(name string) []Step {
	old := a.services[name]
	if old == nil {
		return a.toggleService(name)
	}
	steps := a.deleteService(old)
	svc := a.newService(name)
	if a.chance(70) {
		inherit(svc, old)
	}
	return append(steps, a.createService(svc)...)
}

// handOver deletes a service and gives its address to another one, which is created anew.
func (a *Actor) handOver(from, to string) []Step {
	old := a.services[from]
	if old == nil || from == to {
		return a.toggleService(from)
	}
	steps := a.deleteService(old)
	if heir := a.services[to]; heir != nil {
		steps = append(steps, a.deleteService(heir)...)
	}
	svc := a.newService(to)
	inherit(svc, old)
	return append(steps, a.createService(svc)...)
}

// inherit gives a service the addresses and node ports of a deleted one.
func inherit(svc, old *corev1.Service) {
	if virtual(svc) && virtual(old) {
		svc.Spec.ClusterIp, svc.Spec.ClusterIps = old.GetSpec().GetClusterIp(), old.GetSpec().GetClusterIps()
		svc.Spec.ExternalIps = old.GetSpec().GetExternalIps()
		svc.Spec.Type, svc.Spec.Ports = old.GetSpec().GetType(), clonePorts(old.GetSpec().GetPorts())
	}
}

func clonePorts(ports []*corev1.ServicePort) []*corev1.ServicePort {
	var all []*corev1.ServicePort
	for _, p := range ports {
		all = append(all, p.CloneVT())
	}
	return all
}

// virtual reports whether a service has virtual IPs.
func virtual(svc *corev1.Service) bool {
	return svc.GetSpec().GetType() != corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME && svc.GetSpec().GetClusterIp() != "None"
}

// changeService changes a service's ports, selector, external IPs, or its publishing of endpoints
// that are not ready.
func (a *Actor) changeService(name string) []Step {
	old := a.services[name]
	if old == nil || !virtual(old) {
		return a.toggleService(name)
	}
	svc := object.Clone(old)
	switch a.random.IntN(4) {
	case 0:
		svc.Spec.PublishNotReadyAddresses = !svc.GetSpec().GetPublishNotReadyAddresses()
	case 1:
		if len(svc.GetSpec().GetSelector()) > 0 {
			svc.Spec.Selector = a.selector()
		}
	case 2:
		svc.Spec.ExternalIps = nil
		if ip, ok := pick(a, a.externalIPs(), a.usedExternalIPs()); ok {
			svc.Spec.ExternalIps = []string{ip}
		}
	default:
		nodePort := svc.GetSpec().GetPorts()[0].GetNodePort()
		svc.Spec.Ports = a.ports()
		svc.Spec.Ports[0].NodePort = nodePort
	}
	a.services[name] = svc
	sent := object.Clone(svc)
	// The service keeps its addresses, including a second one that the registry has chosen.
	sent.Spec.ClusterIp, sent.Spec.ClusterIps = "", nil
	return []Step{{Update, sent}}
}

func (a *Actor) deleteService(svc *corev1.Service) []Step {
	delete(a.services, svc.GetMetadata().GetName())
	return []Step{{Delete, svc}}
}

func (a *Actor) createService(svc *corev1.Service) []Step {
	a.services[svc.GetMetadata().GetName()] = svc
	return []Step{{Create, object.Clone(svc)}}
}

func (a *Actor) newService(name string) *corev1.Service {
	spec := &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, Ports: a.ports()}
	svc := &corev1.Service{Metadata: a.meta(name), Spec: spec}
	if name[:1] != manualService {
		spec.Selector = a.selector()
		spec.PublishNotReadyAddresses = a.chance(10)
	}
	if a.chance(40) {
		spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_PREFER_DUAL_STACK
	}
	switch n := a.random.IntN(100); {
	case n < 15:
		spec.ClusterIp, spec.ClusterIps = "None", []string{"None"}
		for _, p := range spec.GetPorts() {
			p.TargetPort = nil // equal to the port, as is required without a selector
		}
		return svc
	case n < 20:
		svc.Spec = &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME, ExternalName: fmt.Sprintf("h%d.example.com", a.random.IntN(3)),
		}
		return svc
	case n < 40:
		if port, ok := pick(a, a.nodePorts(), a.usedNodePorts()); ok {
			spec.Type, spec.Ports[0].NodePort = corev1.ServiceType_SERVICE_TYPE_NODE_PORT, port
			spec.Ports = spec.Ports[:1]
		}
	}
	if ip, ok := pick(a, a.clusterIPs(), a.usedClusterIPs()); ok && a.chance(80) {
		spec.ClusterIp, spec.ClusterIps = ip, []string{ip}
	}
	if ip, ok := pick(a, a.externalIPs(), a.usedExternalIPs()); ok && a.chance(30) {
		spec.ExternalIps = []string{ip}
	}
	return svc
}

// ports returns one to three ports.
func (a *Actor) ports() []*corev1.ServicePort {
	target := func() *corev1.IntOrString {
		return &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: Ports[a.random.IntN(len(Ports))]}}
	}
	tcp, udp := corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP
	all := []*corev1.ServicePort{{Name: "http", Protocol: tcp, Port: 80 + a.random.Int32N(2), TargetPort: target()}}
	if a.chance(30) {
		all = append(all, &corev1.ServicePort{Name: "alt", Protocol: tcp, Port: 90, TargetPort: target()})
	}
	if a.chance(20) {
		all = append(all, &corev1.ServicePort{Name: "query", Protocol: udp, Port: 80, TargetPort: target()})
	}
	return all
}

// selector returns one of three selectors, so that services share pods.
func (a *Actor) selector() map[string]string {
	return Application(a.random.IntN(Applications))
}

// Applications is the number of applications to which the pods of a namespace belong.
const Applications = 3

// Application returns the labels of the pods of an application.
func Application(n int) map[string]string {
	return map[string]string{"app": fmt.Sprintf("app-%d", n)}
}

func (a *Actor) clusterIPs() []string {
	var all []string
	for n := range clusterIPs { // from the lower end of the range, which is for chosen addresses
		all = append(all, fmt.Sprintf("10.96.0.%d", 10+a.number*clusterIPs+n))
	}
	return all
}

func (a *Actor) externalIPs() []string {
	var all []string
	for n := range externalIPs {
		all = append(all, fmt.Sprintf("198.51.100.%d", 10+a.number*externalIPs+n))
	}
	return all
}

func (a *Actor) nodePorts() []int32 {
	var all []int32
	for n := range int32(nodePorts) {
		all = append(all, 30000+int32(a.number)*nodePorts+n)
	}
	return all
}

func (a *Actor) usedClusterIPs() []string {
	return used(a, func(svc *corev1.Service) []string { return svc.GetSpec().GetClusterIps() })
}

func (a *Actor) usedExternalIPs() []string {
	return used(a, func(svc *corev1.Service) []string { return svc.GetSpec().GetExternalIps() })
}

func (a *Actor) usedNodePorts() []int32 {
	return used(a, func(svc *corev1.Service) (ports []int32) {
		for _, p := range svc.GetSpec().GetPorts() {
			ports = append(ports, p.GetNodePort())
		}
		return ports
	})
}

// used returns the values that the services use.
func used[T any](a *Actor, of func(*corev1.Service) []T) []T {
	var all []T
	for _, name := range slices.Sorted(maps.Keys(a.services)) {
		all = append(all, of(a.services[name])...)
	}
	return all
}

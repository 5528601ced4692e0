package spec

import (
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// PrepareServiceCreate sets clusterIPs from clusterIP, for clients that set only clusterIP.
func PrepareServiceCreate(svc *corev1.Service) {
	canonicalClusterIPs(svc.GetSpec())
	if spec := svc.Spec; spec.GetClusterIp() != "" && len(spec.GetClusterIps()) == 0 {
		spec.ClusterIps = []string{spec.ClusterIp}
	}
}

// PrepareServiceUpdate completes an update of a service. It aligns clusterIP and clusterIPs, copies
// omitted allocated values from the old service, and clears values that were allocated for the
// former type. It never changes a field that the client changed itself, so that validation can
// refuse the value.
func PrepareServiceUpdate(updated, old *corev1.Service) {
	canonicalClusterIPs(updated.GetSpec())
	if updated.Spec == nil {
		updated.Spec = &corev1.ServiceSpec{}
	}
	alignClusterIPs(updated.Spec, old.GetSpec())
	patchAllocated(updated, old)
	clearTypeSpecific(updated, old)
	if !IsLoadBalancer(updated) && updated.GetStatus() != nil {
		updated.Status.LoadBalancer = nil
	}
}

func canonicalClusterIPs(spec *corev1.ServiceSpec) {
	if spec == nil {
		return
	}
	spec.ClusterIp = canonicalAddress(spec.ClusterIp)
	for i, ip := range spec.ClusterIps {
		spec.ClusterIps[i] = canonicalAddress(ip)
	}
}

// alignClusterIPs sets clusterIPs for a client that sets or changes only clusterIP.
func alignClusterIPs(updated, old *corev1.ServiceSpec) {
	if updated.ClusterIp == old.GetClusterIp() {
		if len(updated.ClusterIps) == 0 {
			updated.ClusterIps = slices.Clone(old.GetClusterIps())
		}
		return
	}
	switch same := slices.Equal(updated.ClusterIps, old.GetClusterIps()); {
	case updated.ClusterIp == "" && same:
		updated.ClusterIps = nil
	case updated.ClusterIp != "" && (same || len(updated.ClusterIps) == 0):
		updated.ClusterIps = []string{updated.ClusterIp}
	}
}

func patchAllocated(updated, old *corev1.Service) {
	if !object.IsExternalName(updated) && !object.IsExternalName(old) {
		setDefault(&updated.Spec.ClusterIp, old.GetSpec().GetClusterIp())
		if len(updated.Spec.ClusterIps) == 0 && updated.Spec.ClusterIp == old.GetSpec().GetClusterIp() {
			updated.Spec.ClusterIps = slices.Clone(old.GetSpec().GetClusterIps())
		}
	}
	// If allocation is switched off, a missing node port means that the client gives it up.
	if AllowsNodePorts(old) && NeedsNodePorts(updated) {
		patchNodePorts(updated.Spec, old.GetSpec())
	}
	if NeedsHealthCheckNodePort(old) && NeedsHealthCheckNodePort(updated) {
		setDefault(&updated.Spec.HealthCheckNodePort, old.GetSpec().GetHealthCheckNodePort())
	}
}

type nodePort struct {
	protocol corev1.Protocol
	number   int32
}

// patchNodePorts sets each missing node port to the node port of the old port with the same name,
// unless another port uses it.
func patchNodePorts(updated, old *corev1.ServiceSpec) {
	before := map[string]int32{}
	for _, port := range old.GetPorts() {
		before[port.GetName()] = port.GetNodePort()
	}
	used := map[nodePort]bool{}
	for _, port := range updated.Ports {
		used[nodePort{port.GetProtocol(), port.GetNodePort()}] = true
	}
	for _, port := range updated.Ports {
		number := before[port.GetName()]
		if key := (nodePort{port.GetProtocol(), number}); port.GetNodePort() == 0 && number != 0 && !used[key] {
			port.NodePort = number
			used[key] = true
		}
	}
}

// clearTypeSpecific clears values that the new type cannot have, if they are equal to the values of
// the old service.
func clearTypeSpecific(updated, old *corev1.Service) {
	spec, before := updated.Spec, old.GetSpec()
	if object.IsExternalName(updated) && !object.IsExternalName(old) {
		if spec.ClusterIp == before.GetClusterIp() && slices.Equal(spec.ClusterIps, before.GetClusterIps()) {
			spec.ClusterIp, spec.ClusterIps = "", nil
		}
		if slices.Equal(spec.IpFamilies, before.GetIpFamilies()) {
			spec.IpFamilies = nil
		}
		clearIfEqual(&spec.IpFamilyPolicy, before.GetIpFamilyPolicy())
	}
	if AllowsNodePorts(old) && !AllowsNodePorts(updated) && nodePortsWithin(spec, before) {
		for _, port := range spec.Ports {
			port.NodePort = 0
		}
	}
	if NeedsHealthCheckNodePort(old) && !NeedsHealthCheckNodePort(updated) {
		clearIfEqual(&spec.HealthCheckNodePort, before.GetHealthCheckNodePort())
	}
	if IsLoadBalancer(old) && !IsLoadBalancer(updated) {
		if spec.GetAllocateLoadBalancerNodePorts() == before.GetAllocateLoadBalancerNodePorts() {
			spec.AllocateLoadBalancerNodePorts = nil
		}
		if spec.GetLoadBalancerClass() == before.GetLoadBalancerClass() {
			spec.LoadBalancerClass = nil
		}
	}
	if ExternallyAccessible(old) && !ExternallyAccessible(updated) {
		clearIfEqual(&spec.ExternalTrafficPolicy, before.GetExternalTrafficPolicy())
	}
}

func clearIfEqual[T comparable](field *T, old T) {
	if *field == old {
		var zero T
		*field = zero
	}
}

func nodePortsWithin(updated, old *corev1.ServiceSpec) bool {
	had := map[int32]bool{0: true}
	for _, port := range old.GetPorts() {
		had[port.GetNodePort()] = true
	}
	return !slices.ContainsFunc(updated.Ports, func(port *corev1.ServicePort) bool { return !had[port.GetNodePort()] })
}

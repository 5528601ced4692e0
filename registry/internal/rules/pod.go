package rules

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// checkPodStatus refuses the cluster IP of a service as a pod's address, because no EndpointSlice
// could contain it. An address that the pod had before stays, because the service was created
// later.
//
// The pod of a workload has only addresses of its node. The pod of a registrar may also have addresses in
// the node's pod ranges and in the installation's container ranges, which the operator has set. Otherwise
// a workload or a registrar could send the clients of its services to any machine. A container at an
// address outside these ranges is reached at ports that it publishes on its node.
func checkPodStatus(w Context, o, old object.Object) apierr.Violations {
	var found apierr.Violations
	pod, _ := o.(*corev1.Pod)
	before, _ := old.(*corev1.Pod)
	for i, ip := range pod.GetStatus().GetPodIps() {
		if !slices.Contains(before.GetStatus().GetPodIps(), ip) {
			field := fmt.Sprintf("status.podIPs[%d]", i)
			checkBackend(w, &found, field, ip)
			checkOwnedAddress(w, &found, field, ip, pod)
		}
	}
	return found
}

// checkOwnedAddress checks an address of a pod that a workload or a registrar registered.
func checkOwnedAddress(w Context, found *apierr.Violations, field, ip string, pod *corev1.Pod) {
	owner, owned := pod.GetMetadata().GetAnnotations()[object.AnnotationWorkload]
	if !owned {
		return
	}
	node := pod.GetSpec().GetNodeName()
	for _, item := range w.Indexes.NodeAddresses.Lookup(canonicalAddress(ip)) {
		if item.Key.Name == node {
			return
		}
	}
	id, err := identity.ParsePath(identity.DefaultTrustDomain, owner)
	if err != nil || id.Role != identity.Registrar {
		found.Add(field, apierr.ReasonInvalid, "invalid value %q: a workload's pod has addresses of its node, and node %q has no such address", ip, node)
		return
	}
	if !isInPodRange(w, node, ip) && !isInContainerRange(w, ip) {
		found.Add(field, apierr.ReasonInvalid, "invalid value %q: a registrar's pod has addresses of its node, in the node's spec.podCIDRs, or in the registry's container-ranges, and node %q has no such "+
			"address or range: an operator sets one of them to the range of the containers' networks, or the container publishes its ports", ip, node)
	}
}

// isInContainerRange reports whether an address lies in the ranges of containers of the installation.
func isInContainerRange(w Context, ip string) bool {
	addr, err := netip.ParseAddr(ip)
	return err == nil && slices.ContainsFunc(w.Rules.ContainerRanges, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}

// isInPodRange reports whether an address lies in the pod ranges of a node.
func isInPodRange(w Context, name, ip string) bool {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return false
	}
	for _, item := range w.Indexes.PodRanges.Lookup(podRangesOf(name)) {
		node, _ := item.Object.(*corev1.Node)
		for _, text := range node.GetSpec().GetPodCidrs() {
			if p, err := netip.ParsePrefix(text); err == nil && p.Contains(addr.Unmap()) {
				return true
			}
		}
	}
	return false
}

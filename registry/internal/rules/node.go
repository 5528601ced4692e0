package rules

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// checkNodeAddresses bounds the addresses that a node may claim, because its agent writes them. An
// agent that claims a foreign address could have its workloads' pods at that address, and keep the
// services of others from it.
//
// A node gets no address of the cluster, of another node, or outside the operator's ranges.
// Addresses that the node had before stay. An address is of the node that claims it first. Ranges
// for each node would also protect the addresses of nodes that are not there yet, but an operator
// would have to enter the addresses of every machine.
func checkNodeAddresses(w Context, o, old object.Object) apierr.Violations {
	var found apierr.Violations
	node, _ := o.(*corev1.Node)
	before, _ := old.(*corev1.Node)
	had := map[string]bool{}
	for _, ip := range nodeIPs(before) {
		had[ip] = true
	}
	for i, address := range node.GetStatus().GetAddresses() {
		addr, err := netip.ParseAddr(address.GetAddress())
		if !isIP(address) || err != nil || had[addr.Unmap().String()] { // other rules refuse malformed ones
			continue
		}
		if problem := nodeAddressProblem(w, node.GetMetadata().GetName(), addr.Unmap()); problem != "" {
			found.Add(fmt.Sprintf("status.addresses[%d].address", i), apierr.ReasonForbidden, "forbidden: a node may not have the address %q: it %s", addr, problem)
		}
	}
	return found
}

// nodeAddressProblem returns why a node may not have an address, or "".
func nodeAddressProblem(w Context, name string, addr netip.Addr) string {
	if problem := spec.NodeAddressProblem(addr, w.Rules); problem != "" {
		return problem
	}
	for _, item := range w.Indexes.NodeAddresses.Lookup(addr.String()) {
		if item.Key.Name != name {
			return fmt.Sprintf("is the address of node %q; if that node is gone, delete it", item.Key.Name)
		}
	}
	for _, item := range w.Indexes.ExternalAddresses.Lookup(addr.String()) {
		return fmt.Sprintf("is an external address of service %s", item.Key.Path())
	}
	// Few nodes join, so this may look at all nodes that have ranges.
	for _, item := range w.Indexes.PodRanges.Lookup(podRangesKey) {
		other, _ := item.Object.(*corev1.Node)
		for _, text := range other.GetSpec().GetPodCidrs() {
			if p, err := netip.ParsePrefix(text); err == nil && item.Key.Name != name && p.Contains(addr) {
				return fmt.Sprintf("lies in the pod range %s of node %q", p, item.Key.Name)
			}
		}
	}
	return ""
}

// daemonsOf returns the identities of a node's agent, edge and registrar. A registrar that is bound to a
// namespace is not among them, because nothing here knows the namespaces that certificates are bound to.
func daemonsOf(o object.Object) []string {
	name := o.GetMetadata().GetName()
	var paths []string
	for _, role := range []identity.Role{identity.NodeAgent, identity.Edge, identity.Registrar} {
		paths = append(paths, identity.ID{Role: role, Name: name}.Path())
	}
	return paths
}

func isIP(address *corev1.NodeAddress) bool { return strings.HasSuffix(address.GetType(), "IP") }

// nodeIPs returns the addresses of a node in canonical spelling.
func nodeIPs(node *corev1.Node) []string {
	var ips []string
	for _, address := range node.GetStatus().GetAddresses() {
		if isIP(address) {
			ips = append(ips, canonicalAddress(address.GetAddress()))
		}
	}
	return ips
}

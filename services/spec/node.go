package spec

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
)

var (
	taintEffects     = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
	nodeAddressTypes = []string{"InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS"}
)

// ValidateNode checks a new node.
func ValidateNode(node *corev1.Node, rules Rules) apierr.Violations {
	var c checks
	checkPodCIDRs(&c, node.GetSpec())
	if c.atMost("spec.taints", len(node.GetSpec().GetTaints()), maxTaints) {
		checkTaints(&c, node.GetSpec().GetTaints())
	}
	c.text("spec.providerID", node.GetSpec().GetProviderId(), maxText)
	c.add(ValidateNodeStatus(node, rules))
	return c.found
}

// ValidateNodeUpdate checks a node that is to replace old. The pod ranges cannot change once they
// are set, because pods have addresses from them.
func ValidateNodeUpdate(updated, old *corev1.Node, rules Rules) apierr.Violations {
	c := checks{found: ValidateNode(updated, rules)}
	before := old.GetSpec().GetPodCidrs()
	if len(before) > 0 && !slices.Equal(before, updated.GetSpec().GetPodCidrs()) {
		c.immutable("spec.podCIDRs", strings.Join(updated.GetSpec().GetPodCidrs(), ","))
	}
	return c.found
}

// ValidateNodeStatus checks the status of a node.
func ValidateNodeStatus(node *corev1.Node, _ Rules) apierr.Violations {
	var c checks
	status := node.GetStatus()
	checkConditions(&c, status.GetConditions())
	c.text("status.proxyMode", status.GetProxyMode(), maxText)
	c.text("status.agentAddress", status.GetAgentAddress(), maxText)
	c.text("status.agentVersion", status.GetAgentVersion(), maxText)
	c.text("status.kernelVersion", status.GetKernelVersion(), maxText)
	if !c.atMost("status.addresses", len(status.GetAddresses()), maxNodeAddrs) {
		return c.found
	}
	for i, address := range status.GetAddresses() {
		field := indexed("status.addresses", i)
		if !slices.Contains(nodeAddressTypes, address.GetType()) {
			c.unsupported(field+".type", address.GetType(), nodeAddressTypes)
		}
		switch {
		case address.GetAddress() == "":
			c.required(field+".address", "an address is not empty")
		case strings.HasSuffix(address.GetType(), "IP"):
			checkAddress(&c, field+".address", address.GetAddress())
		default:
			c.text(field+".address", address.GetAddress(), maxText)
		}
	}
	return c.found
}

func checkPodCIDRs(c *checks, spec *corev1.NodeSpec) {
	ranges := spec.GetPodCidrs()
	if len(ranges) > 0 && spec.GetPodCidr() != ranges[0] {
		c.invalid("spec.podCIDR", spec.GetPodCidr(), "must equal the first of spec.podCIDRs, %q", truncate(ranges[0]))
	}
	if !c.atMost("spec.podCIDRs", len(ranges), 2) {
		return
	}
	var parsed []netip.Prefix
	for i, text := range ranges {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			c.invalid(indexed("spec.podCIDRs", i), text, "must be a range of addresses (such as 10.9.8.0/24)")
			continue
		}
		parsed = append(parsed, prefix)
	}
	if len(parsed) == 2 && parsed[0].Addr().Is4() == parsed[1].Addr().Is4() {
		c.invalid("spec.podCIDRs", strings.Join(ranges, ","), "there can be one range of each family")
	}
}

func checkTaints(c *checks, taints []*corev1.Taint) {
	seen := map[[2]string]bool{}
	for i, taint := range taints {
		field := indexed("spec.taints", i)
		c.syntax(field+".key", taint.GetKey(), QualifiedName(taint.GetKey()))
		c.syntax(field+".value", taint.GetValue(), LabelValue(taint.GetValue()))
		if !slices.Contains(taintEffects, taint.GetEffect()) {
			c.unsupported(field+".effect", taint.GetEffect(), taintEffects)
		}
		key := [2]string{taint.GetKey(), taint.GetEffect()}
		if seen[key] {
			c.duplicate(field, taint.GetKey()+":"+taint.GetEffect())
		}
		seen[key] = true
	}
}

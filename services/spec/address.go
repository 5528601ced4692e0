package spec

import (
	"net/netip"

	corev1 "portolan.dev/api/core/v1"
)

// Rules holds the settings of the installation that validation depends on. The zero value stands
// for Kubernetes' rules.
type Rules struct {
	// LoopbackEndpoints are loopback ranges in which backends may have addresses, as the pods of
	// `portolan dev` do.
	LoopbackEndpoints []netip.Prefix
	// ServiceCIDRs are the ranges of the virtual IPs. Addresses outside the cluster, such as
	// externalIPs, must not lie in them.
	ServiceCIDRs []netip.Prefix
	// PodCIDRs are the ranges of the pods' addresses. Addresses outside the cluster must not lie in
	// them either.
	PodCIDRs []netip.Prefix
	// ExternalIPs are the ranges that externalIPs may be added from. A node takes all traffic for an
	// external IP, so an address outside them would take away the traffic of a foreign machine
	// (CVE-2020-8554).
	ExternalIPs []netip.Prefix
	// NodeAddresses are the ranges for addresses of nodes. Empty: all unicast addresses except in
	// loopback, link-local and cluster ranges, see [NodeAddressProblem].
	NodeAddresses []netip.Prefix
	// ContainerRanges are the ranges that pods of registrars may have addresses in, besides the
	// addresses and the pod ranges of their nodes.
	ContainerRanges []netip.Prefix
}

const addressRule = "must be an IPv4 address (such as 10.9.8.7) or an IPv6 address (such as 2001:db8::ffff)"

// parseAddress parses an address. It refuses addresses with a zone and IPv4-mapped IPv6 addresses,
// because with them one address would have two spellings.
func parseAddress(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(s)
	return addr, err == nil && addr.Zone() == "" && !addr.Is4In6()
}

// FamilyOf returns the family of an address, or IP_FAMILY_UNSPECIFIED if the text is not an
// address.
func FamilyOf(address string) corev1.IPFamily {
	addr, ok := parseAddress(address)
	switch {
	case !ok:
		return corev1.IPFamily_IP_FAMILY_UNSPECIFIED
	case addr.Is4():
		return corev1.IPFamily_IP_FAMILY_IPV4
	default:
		return corev1.IPFamily_IP_FAMILY_IPV6
	}
}

func checkAddress(c *checks, field, value string) (netip.Addr, bool) {
	addr, ok := parseAddress(value)
	if !ok {
		c.invalid(field, value, addressRule)
	}
	return addr, ok
}

// checkEndpointAddress checks the address of a backend.
func checkEndpointAddress(c *checks, field, value string, rules Rules) (netip.Addr, bool) {
	addr, ok := checkAddress(c, field, value)
	if !ok {
		return addr, false
	}
	if addr.IsLoopback() && contains(rules.LoopbackEndpoints, addr) {
		return addr, true
	}
	return addr, checkNotSpecial(c, field, addr)
}

// checkNotSpecial refuses addresses that have another meaning on every node.
func checkNotSpecial(c *checks, field string, addr netip.Addr) bool {
	kind := specialKind(addr)
	if kind != "" {
		c.invalid(field, addr, "may not be %s", kind)
	}
	return kind == ""
}

// specialKind returns the kind of an address that means another machine on every node, such as loopback.
// It returns "" for other addresses.
func specialKind(addr netip.Addr) string {
	switch {
	case addr.IsUnspecified():
		return "the unspecified address"
	case addr.IsLoopback():
		return "in the loopback range (127.0.0.0/8, ::1/128)"
	case addr.IsLinkLocalUnicast():
		return "in the link-local range (169.254.0.0/16, fe80::/10)"
	case addr.IsLinkLocalMulticast():
		return "in the link-local multicast range (224.0.0.0/24, ff02::/16)"
	}
	return ""
}

// NodeAddressProblem returns the reason why no node of the installation may have an address, or "" if
// nodes may have it. Special addresses, such as loopback, are allowed in the ranges of NodeAddresses and of
// LoopbackEndpoints, for installations on one machine.
func NodeAddressProblem(addr netip.Addr, rules Rules) string {
	kind := specialKind(addr)
	switch {
	case !isUnicast(addr):
		return "is no unicast address"
	case contains(rules.ServiceCIDRs, addr):
		return "lies in the range of the virtual IPs"
	case contains(rules.PodCIDRs, addr):
		return "lies in the range of the pods"
	case len(rules.NodeAddresses) > 0 && !contains(rules.NodeAddresses, addr):
		return "is not in a range that the operator allows, see the registry's node-address-ranges"
	case len(rules.NodeAddresses) > 0, addr.IsLoopback() && len(rules.LoopbackEndpoints) > 0:
		return ""
	case kind != "":
		return "may not be " + kind + " unless the registry's node-address-ranges has it"
	}
	return ""
}

// isUnicast reports whether an address can belong to one machine.
func isUnicast(addr netip.Addr) bool {
	return !addr.IsMulticast() && addr != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// checkExternalAddress refuses addresses of the cluster in fields for external addresses, because
// nodes would take the traffic of such an address away from its owner. It also refuses addresses of
// many machines, which no service can answer at.
func checkExternalAddress(c *checks, field string, addr netip.Addr, rules Rules) {
	switch {
	case !isUnicast(addr):
		c.invalid(field, addr, "is no unicast address")
	case contains(rules.ServiceCIDRs, addr):
		c.invalid(field, addr, "lies in the range of the virtual IPs; take an address that is routed to the nodes")
	case contains(rules.PodCIDRs, addr):
		c.invalid(field, addr, "lies in the range of the pods; take an address that is routed to the nodes")
	}
}

func contains(ranges []netip.Prefix, addr netip.Addr) bool {
	for _, prefix := range ranges {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// canonicalAddress returns the canonical spelling of an address, so that stored addresses can be
// compared as text. Other text is returned unchanged.
func canonicalAddress(s string) string {
	if addr, ok := parseAddress(s); ok {
		return addr.String()
	}
	return s
}

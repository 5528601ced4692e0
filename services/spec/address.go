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
	// LoadBalancerSCTP reports whether the load-balancer provider forwards SCTP.
	LoadBalancerSCTP bool
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
	var kind string
	switch {
	case addr.IsUnspecified():
		kind = "the unspecified address"
	case addr.IsLoopback():
		kind = "in the loopback range (127.0.0.0/8, ::1/128)"
	case addr.IsLinkLocalUnicast():
		kind = "in the link-local range (169.254.0.0/16, fe80::/10)"
	case addr.IsLinkLocalMulticast():
		kind = "in the link-local multicast range (224.0.0.0/24, ff02::/16)"
	default:
		return true
	}
	c.invalid(field, addr, "may not be %s", kind)
	return false
}

// checkExternalAddress refuses addresses of the cluster in fields for external addresses, because
// nodes would take the traffic of such an address away from its owner.
func checkExternalAddress(c *checks, field string, addr netip.Addr, rules Rules) {
	switch {
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

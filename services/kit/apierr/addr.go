package apierr

import "net/netip"

// ParseAddr parses the text of a field as an IP address without a zone. It adds a violation if the text is
// none, or is an IPv4 address in the form of IPv6.
func (v *Violations) ParseAddr(field, text string) netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() {
		v.Add(field, "INVALID", "%q is no IP address", text)
	}
	return addr
}

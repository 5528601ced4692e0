package spec

import "net/netip"

// specialRange is a range with addresses that have another meaning on every node, or that no machine has.
type specialRange struct {
	prefix netip.Prefix
	kind   string
}

var specialRanges = []specialRange{
	{netip.MustParsePrefix("0.0.0.0/8"), "of this network (0.0.0.0/8)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "in the loopback range (127.0.0.0/8, ::1/128)"},
	{netip.MustParsePrefix("169.254.0.0/16"), "in the link-local range (169.254.0.0/16, fe80::/10)"},
	{netip.MustParsePrefix("224.0.0.0/4"), "in the multicast range (224.0.0.0/4, ff00::/8)"},
	{netip.MustParsePrefix("255.255.255.255/32"), "the broadcast address"},
	{netip.MustParsePrefix("::/128"), "the unspecified address"},
	{netip.MustParsePrefix("::1/128"), "in the loopback range (127.0.0.0/8, ::1/128)"},
	{netip.MustParsePrefix("fe80::/10"), "in the link-local range (169.254.0.0/16, fe80::/10)"},
	{netip.MustParsePrefix("ff00::/8"), "in the multicast range (224.0.0.0/4, ff00::/8)"},
}

// SpecialRange returns the kind of the special addresses in a range, or "" if there are none. Every address that the
// rules of objects refuse because of its kind is in such a range, so a pool without special addresses gives none
// that a service could not have. A range is left out if allowed returns true for its first address. allowed may
// be nil.
func SpecialRange(prefix netip.Prefix, allowed func(first netip.Addr) bool) string {
	for _, r := range specialRanges {
		if r.prefix.Overlaps(prefix) && (allowed == nil || !allowed(r.prefix.Addr())) {
			return r.kind
		}
	}
	return ""
}

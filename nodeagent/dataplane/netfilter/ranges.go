package netfilter

import (
	"net/netip"
	"slices"
)

// AddrRange is a range of addresses, from first to last inclusive.
type AddrRange struct{ First, Last netip.Addr }

// MergePrefixes converts the prefixes of one family to ranges that neither overlap nor touch, because the
// kernel refuses overlaps.
func MergePrefixes(prefixes []netip.Prefix, v6 bool) []AddrRange {
	var all []AddrRange
	for _, p := range prefixes {
		if p.Addr().Is6() == v6 {
			all = append(all, AddrRange{p.Masked().Addr(), lastOf(p)})
		}
	}
	slices.SortFunc(all, func(a, b AddrRange) int { return a.First.Compare(b.First) })
	var out []AddrRange
	for _, r := range all {
		if n := len(out); n > 0 && (!out[n-1].Last.Less(r.First) || out[n-1].Last.Next() == r.First) {
			if out[n-1].Last.Less(r.Last) {
				out[n-1].Last = r.Last
			}
			continue
		}
		out = append(out, r)
	}
	return out
}

// Prefixes returns the fewest prefixes that have exactly the addresses of the range.
func (r AddrRange) Prefixes() (out []netip.Prefix) {
	for first := r.First; first.IsValid() && !r.Last.Less(first); {
		p := netip.PrefixFrom(first, first.BitLen())
		for p.Bits() > 0 {
			wider := netip.PrefixFrom(first, p.Bits()-1)
			if wider.Masked().Addr() != first || r.Last.Less(lastOf(wider)) {
				break
			}
			p = wider
		}
		out = append(out, p)
		first = lastOf(p).Next() // invalid after the last address of the family
	}
	return out
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	addr, _ := netip.AddrFromSlice(b) // the length is right
	return addr
}

package spec

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// TestSpecialRangesHaveAllRefusedAddresses draws addresses. One that a service or a backend cannot have lies in a special
// range.
func TestSpecialRangesHaveAllRefusedAddresses(t *testing.T) {
	check := func(addr netip.Addr) (refused bool) { return specialKind(addr) != "" || !isUnicast(addr) }
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom(specialRanges).Draw(t, "range").prefix
		bytes := base.Addr().AsSlice()
		for i := range bytes {
			if i >= base.Bits()/8 {
				bytes[i] = rapid.Byte().Draw(t, "byte")
			}
		}
		addr, _ := netip.AddrFromSlice(bytes)
		if check(addr) && SpecialRange(netip.PrefixFrom(addr, addr.BitLen()), nil) == "" {
			t.Fatalf("%s is refused in objects, and not in pools", addr)
		}
	})
	for text, special := range map[string]bool{
		"192.0.2.0/24": false, "10.0.0.0/8": false, "fd00::/64": false, "2001:db8::/64": false, "240.0.0.0/24": false, "128.0.0.0/16": false,
		"127.0.0.0/8": true, "127.1.2.0/24": true, "0.0.0.0/0": true, "169.254.0.0/24": true, "224.0.0.0/24": true, "239.1.0.0/16": true,
		"255.255.255.0/24": true, "::/64": true, "::1/128": true, "fe80::/64": true, "ff02::/64": true, "0.1.0.0/16": true,
	} {
		if kind := SpecialRange(netip.MustParsePrefix(text), nil); (kind != "") != special {
			t.Errorf("%s: %q", text, kind)
		}
	}
	if kind := SpecialRange(netip.MustParsePrefix("127.98.0.0/24"), netip.Addr.IsLoopback); kind != "" {
		t.Errorf("on one machine: %s", kind)
	}
	if kind := SpecialRange(netip.MustParsePrefix("224.0.0.0/24"), netip.Addr.IsLoopback); kind == "" {
		t.Error("multicast is allowed on one machine")
	}
}

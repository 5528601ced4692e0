package zone_test

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/zone"
)

// namesOf returns the names of the PTR records of an address, and an error text if the zone of the
// address has lost the NS record of its apex.
func namesOf(s *zone.Snapshot, addr netip.Addr) (names []string, fault string) {
	reverse := zone.ReverseName(addr)
	index := s.ZoneOf([]byte(reverse))
	if index < 0 {
		return nil, ""
	}
	apex := s.Get([]byte(s.ZoneAt(index, reverse).Name))
	if apex == nil || apex.Set(dns.TypeNS) == nil {
		return nil, fmt.Sprintf("the zone of %s has no NS record", addr)
	}
	if n := s.Get([]byte(reverse)); n != nil && n.Set(dns.TypePTR) != nil {
		for name := range n.Set(dns.TypePTR).Names() {
			names = append(names, zone.Text(name))
		}
	}
	return names, ""
}

// TestRangesOfEveryLengthGiveAndTakeNames checks for ranges of every length, of both families, that an
// address at each end of the range gets the name of a service or of an endpoint, and that the deletion
// of the object leaves the zones as they were. If a range ends within the last label of an address, the
// address is the apex of a zone of its own.
func TestRangesOfEveryLengthGiveAndTakeNames(t *testing.T) {
	for _, family := range []struct {
		base    netip.Addr
		address corev1.AddressType
	}{
		{netip.MustParseAddr("203.0.113.170"), corev1.AddressType_ADDRESS_TYPE_IPV4},
		{netip.MustParseAddr("2001:db8:a5a5:5a5a:a5a5:5a5a:a5a5:5a5a"), corev1.AddressType_ADDRESS_TYPE_IPV6},
	} {
		for bits := 1; bits <= family.base.BitLen(); bits++ {
			prefix := netip.PrefixFrom(family.base, bits).Masked()
			first, last := prefix.Addr(), lastOf(prefix)
			table := dnstest.Table(t, zone.Config{Zones: []string{"cluster.local"}, Reverse: []netip.Prefix{prefix}}, dnstest.Namespace("a"))
			empty := describe(table.Snapshot())

			service, headless := dnstest.Service("a/web", first.String(), "80:http"), dnstest.Service("a/db", "None")
			slice := dnstest.Slice("a/db/s1", "80:http/tcp", last.String()+"=h")
			slice.AddressType = family.address
			dnstest.Apply(t, table, 2, service)
			if names, fault := namesOf(table.Snapshot(), first); fmt.Sprint(names) != "[web.a.svc.cluster.local.]" || fault != "" {
				t.Errorf("%s: a service at %s has %q %s", prefix, first, names, fault)
			}
			dnstest.Delete(t, table, 3, service)
			dnstest.Apply(t, table, 4, headless, slice)
			if names, fault := namesOf(table.Snapshot(), last); fmt.Sprint(names) != "[h.db.a.svc.cluster.local.]" || fault != "" {
				t.Errorf("%s: an endpoint at %s has %q %s", prefix, last, names, fault)
			}
			dnstest.Delete(t, table, 5, headless, slice)
			if after := describe(table.Snapshot()); !maps.Equal(after, empty) {
				t.Errorf("%s: after the deletions %v, before %v", prefix, after, empty)
			}
		}
	}
}

// lastOf returns the last address of a range.
func lastOf(p netip.Prefix) netip.Addr {
	raw := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 1 << (7 - bit%8)
	}
	addr, _ := netip.AddrFromSlice(raw)
	return addr
}

// drawRange draws a range of any length that has addresses of drawObject.
func drawRange(t *rapid.T) netip.Prefix {
	addr := netip.MustParseAddr(rapid.SampledFrom([]string{"10.0.0.1", "10.0.1.1", "10.200.0.1", "2001:db8::1", "2001:db9::2"}).Draw(t, "base"))
	return netip.PrefixFrom(addr, rapid.IntRange(1, addr.BitLen()).Draw(t, "bits")).Masked()
}

// TestRangesOfAnyLengthLeaveNothingBehind checks that tables with up to three ranges of any length have
// the names of their objects only, whatever changes led there.
func TestRangesOfAnyLengthLeaveNothingBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config(zone.PodsVerified, false)
		cfg.Reverse = rapid.SliceOfN(rapid.Custom(drawRange), 1, 3).Draw(t, "ranges")
		checkNothingIsLeftBehind(t, cfg)
	})
}

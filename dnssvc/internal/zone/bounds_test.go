package zone

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// TestSetsOfMoreRecordsThanCanBeCounted checks that a set with more records than its count can hold
// is answered with as many as possible, not with the few that remain after an overflow.
func TestSetsOfMoreRecordsThanCanBeCounted(t *testing.T) {
	const n = maxRecords + 2
	var (
		v4, v6  []netip.Addr
		records []SRV
		names   []string
	)
	for i := range uint32(n) {
		raw := binary.BigEndian.AppendUint32(nil, 10<<24+i)
		addr := netip.AddrFrom4([4]byte(raw))
		v4, v6 = append(v4, addr), append(v6, netip.AddrFrom16(addr.As16()))
		records = append(records, SRV{Port: 80, Label: label(Dashed(addr)), Weight: 1})
		names = append(names, label(Dashed(addr))+"\x01z\x00")
	}
	sets := map[string]Set{
		"A": addressSets(v4, nil)[0], "AAAA": addressSets(v6, nil)[0], "SRV": srvForm{}.set(0, records),
		"PTR of services": packPTR(slices.Clone(names), nil), "PTR of endpoints": packPTR(nil, names),
	}
	for what, set := range sets {
		if set.Count != maxRecords {
			t.Errorf("%s: %d records, want %d", what, set.Count, maxRecords)
		}
	}
}

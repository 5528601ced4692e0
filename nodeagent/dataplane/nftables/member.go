package nftables

import (
	"hash/fnv"
	"net/netip"
)

// assignMembers gives a number to each backend that clients with affinity may return to. The number
// is derived from the address, so that clients recognize a backend that returns. If it is taken, the
// backend gets the next one. assignMembers returns how many it has given.
func (s *server) assignMembers() (given int) {
	taken := map[uint32]bool{} // stays empty without affinity
	for i := range s.backends {
		b := &s.backends[i]
		if !s.sticky() || b.weight == 0 {
			b.member = 0
			continue
		}
		taken[b.member] = true
	}
	for i := range s.backends {
		b := &s.backends[i]
		if !s.sticky() || b.weight == 0 || b.member != 0 {
			continue
		}
		b.member = preferredMember(b.addr)
		for taken[b.member] {
			b.member = (b.member+1)&maxNumber | memberBit
		}
		taken[b.member] = true
		given++
	}
	return given
}

// preferredMember returns the number for a backend that no other backend has taken.
func preferredMember(addr netip.AddrPort) uint32 {
	h := fnv.New32a()
	b, _ := addr.MarshalBinary() // it never fails
	h.Write(b)                   //nolint:errcheck // it never fails
	x := h.Sum32()
	return (x^x>>16)&maxNumber | memberBit
}

// memberOf returns the number of a backend, or 0.
func (s *server) memberOf(addr netip.AddrPort) uint32 {
	if i, ok := s.find(addr); ok {
		return s.backends[i].member
	}
	return 0
}

package kernel

import (
	"hash/fnv"
	"net/netip"
	"slices"
)

// StandIns are the ranges of stand-in addresses. A stand-in replaces the address of a service if
// external clients have backends of their own. Packets to stand-ins never leave the node.
var StandIns = []netip.Prefix{netip.MustParsePrefix("240.112.0.0/16"), netip.MustParsePrefix("fd70:6f72:746f:6c61::/64")}

// isStandIn reports whether an address is in the ranges of stand-ins.
func isStandIn(addr netip.Addr) bool {
	return slices.ContainsFunc(StandIns, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// standIns assigns stand-ins to addresses.
type standIns struct {
	of    map[netip.Addr]netip.Addr
	taken map[netip.Addr]int // number of frontends that use a stand-in
}

func newStandIns() standIns {
	return standIns{of: map[netip.Addr]netip.Addr{}, taken: map[netip.Addr]int{}}
}

// acquire returns the stand-in of an address for one more frontend. It is derived from the address,
// so that it seldom changes.
func (s *standIns) acquire(addr netip.Addr) netip.Addr {
	if in, ok := s.of[addr]; ok {
		s.taken[in]++
		return in
	}
	pool := StandIns[0]
	if addr.Is6() {
		pool = StandIns[1]
	}
	h := fnv.New32a()
	h.Write(addr.AsSlice()) //nolint:errcheck // it never fails
	for n := h.Sum32(); ; n++ {
		b := pool.Addr().AsSlice()
		b[len(b)-2], b[len(b)-1] = byte(n>>8), byte(n)
		if addr.Is6() {
			b[len(b)-4], b[len(b)-3] = byte(n>>24), byte(n>>16)
		}
		in, _ := netip.AddrFromSlice(b) // the length is right
		if s.taken[in] == 0 {
			s.note(addr, in)
			return in
		}
	}
}

// note records a stand-in for one more frontend.
func (s *standIns) note(addr, in netip.Addr) {
	s.of[addr] = in
	s.taken[in]++
}

func (s *standIns) release(addr, in netip.Addr) {
	if s.taken[in]--; s.taken[in] <= 0 {
		delete(s.taken, in)
		delete(s.of, addr)
	}
}

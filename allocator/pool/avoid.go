package pool

// AvoidingBuggyIPs returns a range of IPv4 addresses from which Pick never returns an address that ends in
// .0 or .255. Some old clients and routers take such an address for the address of a network or for a
// broadcast address, and drop its packets. Allocate accepts it like all others. Other ranges are returned
// as they are.
//
// A pool does not count these addresses as taken, because explicit requests can get them. Each search
// passes over them; a /16 has 512 of them. The alternative, a second set with them, would hold them in
// memory and would have to be changed together with the first set.
func (s Space) AvoidingBuggyIPs() Space {
	s.avoidsBuggyIPs = s.IsAddresses() && s.prefix.Addr().Is4()
	return s
}

// AvoidsBuggyIPs reports whether Pick returns no address that ends in .0 or .255.
func (s Space) AvoidsBuggyIPs() bool { return s.avoidsBuggyIPs }

// isAvoided reports whether Pick passes over a value.
func (s Space) isAvoided(index uint64) bool {
	last := byte(s.first + index)
	return s.avoidsBuggyIPs && (last == 0 || last == 255)
}

// avoided returns the number of values that Pick passes over.
func (s Space) avoided() uint64 {
	if !s.avoidsBuggyIPs {
		return 0
	}
	below := func(n uint64) uint64 { return n>>8*2 + min(n&255, 1) } // of all addresses
	return below(s.first+s.size) - below(s.first)
}

// Avoided returns the number of values that are not in use, and that Pick would not return.
func (p *Pool) Avoided() uint64 { return p.space.avoided() - p.avoidedUsed }

// nextFree returns the next free index in [from, to) that may be picked.
func (p *Pool) nextFree(from, to uint64) (uint64, bool) {
	for {
		i, ok := p.blocked.nextAbsent(from, to)
		if !ok || !p.space.isAvoided(i) {
			return i, ok
		}
		from = i + 1
	}
}

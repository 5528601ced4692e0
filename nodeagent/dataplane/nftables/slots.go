package nftables

import (
	"cmp"
	"hash/fnv"
	"math"
	"net/netip"
	"slices"

	"portolan.dev/nodeagent/plan"
)

const (
	// maxSlots is the maximum number of slots of a server. Finer weights are rounded.
	maxSlots = 1000
	// hashSlots is the number of slots of a server with consistent hashing: a prime, several times
	// the usual number of backends.
	hashSlots = 251
)

// backend is a backend with its weight.
type backend struct {
	addr   netip.AddrPort
	weight uint32
	// member is the number by which clients with affinity remember the backend. It is 0 if there is no
	// affinity, or if the backend takes no new connections.
	member uint32
}

// assign fills the slots of a server with its backends. It changes as few slots as possible.
func assign(old []netip.AddrPort, scheduler string, backends []backend) []netip.AddrPort {
	if scheduler == plan.Maglev.String() {
		return rendezvous(backends)
	}
	owed := shares(backends)
	next := make([]netip.AddrPort, 0, len(old))
	var free []int
	for _, addr := range old {
		if owed[addr] > 0 {
			owed[addr]--
		} else {
			free = append(free, len(next))
			addr = netip.AddrPort{}
		}
		next = append(next, addr)
	}
	missing := spread(backends, owed)
	for len(free) > 0 && len(missing) > 0 {
		next[free[0]] = missing[0]
		free, missing = free[1:], missing[1:]
	}
	for len(free) > 0 { // the last slots move to free places
		last := len(next) - 1
		if free[len(free)-1] == last {
			free = free[:len(free)-1]
		} else {
			next[free[0]] = next[last]
			free = free[1:]
		}
		next = next[:last]
	}
	return append(next, missing...)
}

// shares returns the number of slots of each backend: its weight, divided by a common factor.
func shares(backends []backend) map[netip.AddrPort]int {
	var divisor, total uint64
	for _, b := range backends {
		divisor = gcd(divisor, uint64(b.weight))
		total += uint64(b.weight)
	}
	out := make(map[netip.AddrPort]int, len(backends))
	for _, b := range backends {
		switch {
		case b.weight == 0:
		case total/divisor <= maxSlots:
			out[b.addr] = int(uint64(b.weight) / divisor)
		default:
			out[b.addr] = max(1, int(uint64(b.weight)*maxSlots/total))
		}
	}
	return out
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// spread lists each backend as often as it is owed a slot, at even distances.
func spread(backends []backend, owed map[netip.AddrPort]int) []netip.AddrPort {
	type place struct {
		at   float64
		addr netip.AddrPort
	}
	var places []place
	for _, b := range backends {
		n := owed[b.addr]
		for i := range n {
			places = append(places, place{(float64(i) + 0.5) / float64(n), b.addr})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	out := make([]netip.AddrPort, len(places))
	for i, p := range places {
		out[i] = p.addr
	}
	return out
}

// rendezvous gives every slot to the backend with the highest weighted score for it (rendezvous
// hashing). All nodes get the same result without communication, and adding or removing a backend
// moves no client between other backends.
func rendezvous(backends []backend) []netip.AddrPort {
	var out []netip.AddrPort
	for slot := range uint32(hashSlots) {
		best := math.Inf(-1)
		var winner netip.AddrPort
		for _, b := range backends {
			if b.weight == 0 {
				continue
			}
			if lot := score(b.addr, slot, b.weight); lot > best {
				best, winner = lot, b.addr
			}
		}
		if !winner.IsValid() {
			return nil
		}
		out = append(out, winner)
	}
	return out
}

// score returns a backend's score for a slot, a negative number. The highest one wins.
func score(addr netip.AddrPort, slot, weight uint32) float64 {
	h := fnv.New64a()
	h.Write(addr.Addr().AsSlice())                                                          //nolint:errcheck // it never fails
	h.Write([]byte{byte(addr.Port() >> 8), byte(addr.Port()), byte(slot >> 8), byte(slot)}) //nolint:errcheck // it never fails
	// FNV's low bits are the better ones. A product moves them up.
	x := h.Sum64()
	x = (x ^ x>>32) * 0x9e3779b97f4a7c15
	x ^= x >> 29
	return math.Log((float64(x>>11)+0.5)/(1<<53)) / float64(weight)
}

package backends

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"net/netip"

	corev1 "portolan.dev/api/core/v1"
)

// schedule picks one of the candidates, of which there is at least one, all with a weight above 0.
// The schedulers follow the kernel's rules. The hashing ones use rendezvous hashing. It is stable
// per address and distributes by weight like the kernel's tables, but moves fewer clients when
// backends change. Hashing always falls back to another backend, because only usable backends are
// candidates.
func (p *Pool) schedule(candidates []*Backend, client, local netip.AddrPort) *Backend {
	switch p.server.Scheduler {
	case corev1.Scheduler_SCHEDULER_LC:
		return minBy(candidates, func(b *Backend) float64 { return float64(len(b.sessions)) })
	case corev1.Scheduler_SCHEDULER_SED:
		return minBy(candidates, expectedDelay)
	case corev1.Scheduler_SCHEDULER_NQ:
		for _, b := range candidates {
			if len(b.sessions) == 0 {
				return b
			}
		}
		return minBy(candidates, expectedDelay)
	case corev1.Scheduler_SCHEDULER_DH:
		return hashed(candidates, local.Addr(), 0)
	case corev1.Scheduler_SCHEDULER_SH, corev1.Scheduler_SCHEDULER_MH:
		if p.server.HashPort {
			return hashed(candidates, client.Addr(), client.Port())
		}
		return hashed(candidates, client.Addr(), 0)
	}
	return p.roundRobin(candidates)
}

func expectedDelay(b *Backend) float64 { return float64(len(b.sessions)+1) / float64(b.weight) }

// minBy returns the first candidate with the smallest value.
func minBy(candidates []*Backend, value func(*Backend) float64) *Backend {
	best, low := candidates[0], value(candidates[0])
	for _, b := range candidates[1:] {
		if v := value(b); v < low {
			best, low = b, v
		}
	}
	return best
}

// roundRobin returns the candidates in turn. If weights differ it uses smooth weighted round robin:
// in every round of sum(weights) picks each backend is picked as often as its weight says, spread
// evenly over the round.
func (p *Pool) roundRobin(candidates []*Backend) *Backend {
	total, equal := 0, true
	for _, b := range candidates {
		total += b.weight
		equal = equal && b.weight == candidates[0].weight
	}
	if equal {
		p.nextIndex++
		return candidates[(p.nextIndex-1)%len(candidates)]
	}
	var best *Backend
	for _, b := range candidates {
		b.rrCredit += b.weight
		if best == nil || b.rrCredit > best.rrCredit {
			best = b
		}
	}
	best.rrCredit -= total
	return best
}

// hashed returns the candidate with the lowest score for an address.
func hashed(candidates []*Backend, addr netip.Addr, port uint16) *Backend {
	return minBy(candidates, func(b *Backend) float64 { return Score(addr, port, b.addr, uint32(b.weight)) })
}

// Score returns the score of a backend for an address and port. The backend with the lowest score
// serves them. The weight must be above 0.
func Score(addr netip.Addr, port uint16, to netip.AddrPort, weight uint32) float64 {
	return -math.Log(hashToUnitInterval(addr, port, to)) / float64(weight)
}

// hashToUnitInterval hashes its arguments to a number above 0 and below 1.
func hashToUnitInterval(addr netip.Addr, port uint16, to netip.AddrPort) float64 {
	h := fnv.New64a()
	a, b := addr.As16(), to.Addr().As16()
	h.Write(a[:])
	h.Write(binary.BigEndian.AppendUint16(nil, port))
	h.Write(b[:])
	h.Write(binary.BigEndian.AppendUint16(nil, to.Port()))
	x := h.Sum64() // FNV mixes its high bits badly; the lines below finish as in splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return (float64(x>>11) + 0.5) / (1 << 53)
}

package userspace

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"net/netip"

	"portolan.dev/nodeagent/plan"
)

// schedule picks one of the candidates, of which there is at least one, all with a weight above 0.
// The schedulers follow the kernel's rules. The hashing ones use rendezvous hashing. It is stable
// per address and distributes by weight like the kernel's tables, but moves fewer clients when
// backends change. Hashing always falls back to another backend, because only usable backends are
// candidates.
func (p *pool) schedule(candidates []*backend, client, local netip.AddrPort) *backend {
	switch p.server.Scheduler {
	case plan.LeastConnections:
		return minBy(candidates, func(b *backend) float64 { return float64(len(b.sessions)) })
	case plan.ShortestDelay:
		return minBy(candidates, expectedDelay)
	case plan.NeverQueue:
		for _, b := range candidates {
			if len(b.sessions) == 0 {
				return b
			}
		}
		return minBy(candidates, expectedDelay)
	case plan.DestinationHash:
		return hashed(candidates, local.Addr(), 0)
	case plan.SourceHash, plan.Maglev:
		if p.server.Flags&plan.HashPort != 0 {
			return hashed(candidates, client.Addr(), client.Port())
		}
		return hashed(candidates, client.Addr(), 0)
	}
	return p.roundRobin(candidates)
}

func expectedDelay(b *backend) float64 { return float64(len(b.sessions)+1) / float64(b.weight) }

// minBy returns the first candidate with the smallest value.
func minBy(candidates []*backend, value func(*backend) float64) *backend {
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
func (p *pool) roundRobin(candidates []*backend) *backend {
	total, equal := 0, true
	for _, b := range candidates {
		total += b.weight
		equal = equal && b.weight == candidates[0].weight
	}
	if equal {
		p.nextIndex++
		return candidates[(p.nextIndex-1)%len(candidates)]
	}
	var best *backend
	for _, b := range candidates {
		b.rrCredit += b.weight
		if best == nil || b.rrCredit > best.rrCredit {
			best = b
		}
	}
	best.rrCredit -= total
	return best
}

// hashed returns the candidate with the highest weighted score for an address.
func hashed(candidates []*backend, addr netip.Addr, port uint16) *backend {
	return minBy(candidates, func(b *backend) float64 {
		return -math.Log(hashToUnitInterval(addr, port, b.addr)) / float64(b.weight)
	})
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

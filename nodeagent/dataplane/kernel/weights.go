package kernel

import (
	"math"
	"slices"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/backends"
)

// preferred is added to the weight of the backend that dh chooses. Weights have 16 bits in the plan
// and in the kernel, and dh has no use for more than 15.
const preferred = 1 << 15

// reals returns the backends of a virtual server with their weights in the kernel. They are those of
// the plan, unless a trait of the balancer needs other ones.
func (p *Plane) reals(v *plan.VirtualServer) []plan.RealServer {
	switch {
	case v.Scheduler == plan.DestinationHash && p.traits.PrefersHeaviest:
		return withPreferred(v)
	case v.Scheduler == plan.SourceHash && p.traits.SourceHashSlots > 0:
		return scaled(v.Reals, p.traits.SourceHashSlots)
	}
	return v.Reals
}

// plannedWeight returns the plan's weight of a backend from its weight in the kernel. Weights that
// were scaled stay so until the next plan.
func (p *Plane) plannedWeight(v *plan.VirtualServer, weight uint32) uint32 {
	if v.Scheduler == plan.DestinationHash && p.traits.PrefersHeaviest && weight > preferred {
		return weight - preferred
	}
	return weight
}

// withPreferred returns the backends of a dh server, of which the one that the address is hashed to is
// the heaviest.
func withPreferred(v *plan.VirtualServer) []plan.RealServer {
	out := slices.Clone(v.Reals)
	chosen, lowest := -1, math.Inf(1)
	for i := range out {
		r := &out[i]
		r.Weight = min(r.Weight, preferred-1)
		if r.Weight == 0 {
			continue
		}
		if s := backends.Score(v.Addr.Addr(), 0, r.Addr, r.Weight); s < lowest {
			chosen, lowest = i, s
		}
	}
	if chosen >= 0 {
		out[chosen].Weight += preferred
	}
	return out
}

// scaled returns backends with smaller weights of the same proportions, if their sum exceeds slots.
func scaled(reals []plan.RealServer, slots uint64) []plan.RealServer {
	total := uint64(0)
	for i := range reals {
		total += uint64(reals[i].Weight)
	}
	if total <= slots {
		return reals
	}
	out := slices.Clone(reals)
	for i := range out {
		if w := uint64(out[i].Weight); w > 0 {
			out[i].Weight = uint32(max(1, w*slots/total))
		}
	}
	return out
}

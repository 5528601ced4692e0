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
// the plan, except that the plane itself chooses the backend of dh if the balancer uses the heaviest
// backend only.
func (p *Plane) reals(v *plan.VirtualServer) []plan.RealServer {
	if v.Scheduler != plan.DestinationHash || !p.traits.PrefersHeaviest {
		return v.Reals
	}
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

// plannedWeight returns the plan's weight of a backend from its weight in the kernel.
func (p *Plane) plannedWeight(v *plan.VirtualServer, weight uint32) uint32 {
	if v.Scheduler == plan.DestinationHash && p.traits.PrefersHeaviest && weight > preferred {
		return weight - preferred
	}
	return weight
}

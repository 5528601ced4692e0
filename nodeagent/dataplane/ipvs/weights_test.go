package ipvs

import (
	"testing"

	"portolan.dev/nodeagent/plan"
)

// TestWeightsChooseTheScheduler checks that rr becomes wrr if weights differ, and that no other
// scheduler is replaced.
func TestWeightsChooseTheScheduler(t *testing.T) {
	b := &balancer{missing: map[string]bool{"lc": true}}
	for _, tt := range []struct {
		scheduler plan.Scheduler
		weights   []uint32
		want      string
	}{
		{plan.RoundRobin, nil, "rr"},
		{plan.RoundRobin, []uint32{3, 3, 0}, "rr"},
		{plan.RoundRobin, []uint32{3, 1}, "wrr"},
		{plan.RoundRobin, []uint32{0, 3, 1}, "wrr"},
		{plan.SourceHash, []uint32{3, 1}, "sh"},
		{plan.LeastConnections, []uint32{3, 3}, "rr"}, // the kernel lacks it
	} {
		v := &plan.VirtualServer{Attributes: plan.Attributes{Scheduler: tt.scheduler}}
		for _, w := range tt.weights {
			v.Reals = append(v.Reals, plan.RealServer{Weight: w})
		}
		if got := b.Settings(v).Scheduler; got != tt.want {
			t.Errorf("%s with weights %d: %s, want %s", tt.scheduler, tt.weights, got, tt.want)
		}
	}
}

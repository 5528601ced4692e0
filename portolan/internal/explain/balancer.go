package explain

import (
	"context"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/portolan/internal/balancer"
)

// balancer reports the load balancer: its provider and addresses, the nodes that announce them, and the
// reason if it is not complete. That does not break the chain, because the service still works for clients
// inside.
func (c *explainer) balancer(ctx context.Context) Step {
	step := Step{Title: "load balancer", State: OK}
	listed, err := allocatorv1.NewAllocatorServiceClient(c.Allocator).ListPools(ctx, &allocatorv1.ListPoolsRequest{})
	if err != nil {
		step = noAnswer(step, "allocator", err)
	}
	state := balancer.Of(c.service, balancer.NewPools(listed.GetPools()))
	for _, line := range state.Sentences(func(at time.Time) string { return at.Format(time.RFC3339) }) {
		step.addLine("%s", line)
	}
	c.certificates(ctx, &step)
	switch {
	case len(state.Addresses) == 0:
		step.setState(Notice, "inside, the virtual IP works; outside, nothing leads to the service yet")
	case !state.Ensured:
		step.setState(Notice, "the addresses work as before the change; lbctl tries again")
	case state.Unannounced != "":
		step.setState(Notice, "clients reach the addresses only if routes lead to the nodes; lbctl -announce=false if they do")
	}
	return step
}

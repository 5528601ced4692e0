package explain

import (
	"context"
	"slices"
	"strconv"

	allocatorv1 "portolan.dev/proto/portolan/allocator/v1"
)

// addresses compares the service's virtual IPs and node ports with the allocator's books.
func (c *chain) addresses(ctx context.Context) Step {
	step := Step{Title: "virtual IPs and node ports", State: OK}
	wanted := c.values()
	answer, err := allocatorv1.NewAllocatorServiceClient(c.Allocator).ListAllocations(ctx,
		&allocatorv1.ListAllocationsRequest{OwnerUid: c.service.GetMetadata().GetUid(), PageSize: 1000})
	if err != nil {
		return silent(step, "allocator", err)
	}
	var owned []string
	for _, allocation := range answer.GetAllocations() {
		owned = append(owned, allocation.GetValue())
		step.say("%s from pool %s", allocation.GetValue(), allocation.GetPool())
	}
	for _, value := range wanted {
		if !slices.Contains(owned, value) {
			step.say("%s is not allocated to this service", value)
			step.mark(Broken, "the allocator's verifier repairs it where nobody else has the value; see the events: portolan describe service "+c.service.GetMetadata().GetName())
		}
	}
	if len(wanted) == 0 {
		step.mark(Broken, "the service has no virtual IP")
	}
	return step
}

// values returns what the service should own.
func (c *chain) values() []string {
	values := slices.Clone(c.service.GetSpec().GetClusterIps())
	for _, port := range c.service.GetSpec().GetPorts() {
		if value := strconv.Itoa(int(port.GetNodePort())); value != "0" && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

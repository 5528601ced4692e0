package explain

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/allocator/pool"
)

// addresses compares the service's virtual IPs and node ports with the allocator's allocations, and
// with the other services.
func (c *explainer) addresses(ctx context.Context) Step {
	step := Step{Title: "virtual IPs and node ports", State: OK}
	split, err := c.protocolPools(ctx)
	if err != nil {
		return noAnswer(step, "allocator", err)
	}
	wanted := values(c.service, split)
	answer, err := allocatorv1.NewAllocatorServiceClient(c.Allocator).ListAllocations(ctx,
		&allocatorv1.ListAllocationsRequest{OwnerUid: c.service.GetMetadata().GetUid(), PageSize: 1000})
	if err != nil {
		return noAnswer(step, "allocator", err)
	}
	var owned []string
	for _, allocation := range answer.GetAllocations() {
		if strings.HasPrefix(allocation.GetSlot(), spec.BalancerSlots) {
			continue // of the load balancer
		}
		owned = append(owned, allocation.GetValue())
		step.addLine("%s from pool %s", allocation.GetValue(), allocation.GetPool())
	}
	if err := c.duplicates(ctx, &step, split, wanted, owned); err != nil {
		return noAnswer(step, "registry", err)
	}
	for _, value := range wanted {
		if !slices.Contains(owned, value) {
			step.addLine("%s is not allocated to this service", value)
			step.setState(Broken, "the allocator's verifier repairs it if no other object has the value; see the events: portolan describe service "+c.service.GetMetadata().GetName())
		}
	}
	if len(wanted) == 0 {
		step.setState(Broken, "the service has no virtual IP")
	}
	return step
}

// duplicates reports the other services that have a value of this one. The service to which the
// value is not allocated must be recreated.
func (c *explainer) duplicates(ctx context.Context, step *Step, split []pool.Space, wanted, owned []string) error {
	all, err := client.ListOf[*corev1.Service](ctx, client.New(c.Registry), client.Query{})
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.GetMetadata().GetUid() == c.service.GetMetadata().GetUid() {
			continue
		}
		has := values(other, split)
		for _, value := range wanted {
			if !slices.Contains(has, value) {
				continue
			}
			meta := other.GetMetadata()
			step.addLine("%s is also in service %s/%s: clients of one reach the backends of the other", value, meta.GetNamespace(), meta.GetName())
			wrong := c.service
			if slices.Contains(owned, value) {
				wrong = other
			}
			step.setState(Broken, recreate(wrong, value))
		}
	}
	return nil
}

// recreate returns the remedy for a service with a value that is allocated to another service.
func recreate(svc *corev1.Service, value string) string {
	meta := svc.GetMetadata()
	return fmt.Sprintf("%s is not allocated to %s/%s: recreate that service, without asking for %s: portolan delete service %s -n %s, then apply it",
		value, meta.GetNamespace(), meta.GetName(), value, meta.GetName(), meta.GetNamespace())
}

// protocolPools returns the ranges of node ports in which a number may belong to one service for TCP
// and to another one for UDP.
func (c *explainer) protocolPools(ctx context.Context) ([]pool.Space, error) {
	listed, err := allocatorv1.NewAllocatorServiceClient(c.Allocator).ListPools(ctx, &allocatorv1.ListPoolsRequest{})
	if err != nil {
		return nil, err
	}
	var ranges []pool.Space
	for _, p := range listed.GetPools() {
		if !p.GetPerProtocol() {
			continue
		}
		space, err := pool.Parse(p.GetRange())
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", p.GetName(), err)
		}
		ranges = append(ranges, space)
	}
	return ranges, nil
}

// values returns the values that must be allocated to a service, in the form of the allocator. A node
// port in one of the split ranges has its protocol: "30080/UDP".
func values(svc *corev1.Service, split []pool.Space) []string {
	var values []string
	if object.NeedsClusterIP(svc) {
		values = slices.Clone(svc.GetSpec().GetClusterIps())
	}
	add := func(port int32, protocol corev1.Protocol) {
		value := strconv.Itoa(int(port))
		if slices.ContainsFunc(split, func(s pool.Space) bool { return s.HasNumber(pool.PortValue(uint16(port))) }) {
			value += "/" + spec.EnumName(protocol)
		}
		if port != 0 && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	for _, port := range svc.GetSpec().GetPorts() {
		add(port.GetNodePort(), port.GetProtocol())
	}
	add(svc.GetSpec().GetHealthCheckNodePort(), corev1.Protocol_PROTOCOL_TCP)
	return values
}

package explain

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/portolan/internal/rollout"
)

// checkBackends compares the backends that a node uses with the registry's slices, which explain reads
// itself. The agent's own reasons prove nothing if its view is wrong.
func (c *explainer) checkBackends(ctx context.Context, step *Step, node rollout.Node, plan *nodeagentv1.GetPlanResponse) {
	unknown := c.unknownBackends(plan)
	if len(unknown) > 0 { // they may be of a slice that was written since
		if _, err := c.readSlices(ctx); err != nil {
			*step = noAnswer(*step, "registry", err)
			return
		}
		meta := c.service.GetMetadata()
		again, err := rollout.Plan(ctx, c.Dial, node.Name, node.Address, meta.GetNamespace(), meta.GetName())
		if err != nil {
			*step = noAnswer(*step, "the agent of "+node.Name, err)
			return
		}
		unknown = c.unknownBackends(again)
	}
	for i, backend := range unknown {
		if i == maxShown {
			step.addLine("  and %d more that the registry does not have", len(unknown)-maxShown)
			break
		}
		step.addLine("  forwards to %s, which no EndpointSlice of the registry has", backend)
	}
	if len(unknown) > 0 {
		step.setState(Broken, node.Name+" forwards to backends that the registry does not have; if it is not only behind, somebody forged changes: portolan node resync "+node.Name)
	}
}

// unknownBackends returns the backends with new connections that the registry's slices do not have,
// sorted.
func (c *explainer) unknownBackends(plan *nodeagentv1.GetPlanResponse) []netip.AddrPort {
	found := map[netip.AddrPort]bool{}
	for _, server := range plan.GetVirtualServers() {
		for _, backend := range server.GetRealServers() {
			at, err := netip.ParseAddr(backend.GetAddress())
			if err != nil || !backend.GetUsed() || backend.GetDraining() {
				continue
			}
			if addr := netip.AddrPortFrom(at, uint16(backend.GetPort())); !c.backends[addr] { // a port
				found[addr] = true
			}
		}
	}
	unknown := make([]netip.AddrPort, 0, len(found))
	for addr := range found {
		unknown = append(unknown, addr)
	}
	slices.SortFunc(unknown, func(a, b netip.AddrPort) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Port(), b.Port()))
	})
	return unknown
}

// backendsOf returns the addresses and ports of the endpoints of slices.
func backendsOf(all []*corev1.EndpointSlice) map[netip.AddrPort]bool {
	backends := map[netip.AddrPort]bool{}
	for _, slice := range all {
		for _, endpoint := range slice.GetEndpoints() {
			for _, text := range endpoint.GetAddresses() {
				at, err := netip.ParseAddr(text)
				if err != nil {
					continue
				}
				for _, port := range slice.GetPorts() {
					backends[netip.AddrPortFrom(at, uint16(port.GetPort()))] = true // a port
				}
			}
		}
	}
	return backends
}

package nodeagent

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"portolan.dev/nodeagent/plan"
)

// addresses are the node's addresses by role.
type addresses struct {
	node      []netip.Addr // addresses in the Node's status, the main one first
	nodePorts []netip.Addr // sorted
	sources   plan.Sources
}

// loopback are the ranges of the node's own loopback traffic.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// assign assigns roles to the node's addresses. The parameter local holds the addresses of the
// interfaces.
func (c *Config) assign(local []netip.Addr) addresses {
	var a addresses
	configured := len(c.NodeAddresses) > 0
	for _, text := range c.NodeAddresses {
		a.node = append(a.node, netip.MustParseAddr(text)) // Validate has checked it
	}
	for _, addr := range local {
		if !configured && addr.IsGlobalUnicast() {
			a.node = append(a.node, addr)
		}
	}
	all := slices.Concat(a.node, local)
	switch {
	case len(c.NodePortAddresses) > 0:
		a.nodePorts = slices.DeleteFunc(slices.Clone(all), func(addr netip.Addr) bool {
			return !slices.ContainsFunc(c.NodePortAddresses, func(p netip.Prefix) bool { return p.Contains(addr) })
		})
	case configured:
		a.nodePorts = slices.Clone(a.node)
	default:
		a.nodePorts = slices.DeleteFunc(all, func(addr netip.Addr) bool { return addr.IsLinkLocalUnicast() })
	}
	slices.SortFunc(a.nodePorts, netip.Addr.Compare)
	a.nodePorts = slices.Compact(a.nodePorts)
	a.sources = c.sources(slices.Concat(a.node, local))
	return a
}

func (c *Config) sources(node []netip.Addr) plan.Sources {
	s := plan.Sources{Pods: slices.Clone(c.PodCIDR), Node: slices.Clone(loopback)}
	for _, addr := range node {
		if !addr.IsLoopback() {
			s.Node = append(s.Node, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	for _, list := range []*[]netip.Prefix{&s.Pods, &s.Node} {
		slices.SortFunc(*list, netip.Prefix.Compare)
		*list = slices.Compact(*list)
	}
	return s
}

// interfaceAddresses returns the unicast addresses of the machine, IPv4 first.
func interfaceAddresses() ([]netip.Addr, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of interfaces: %w", err)
	}
	var out []netip.Addr
	for _, a := range found {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil {
			out = append(out, prefix.Addr().Unmap())
		}
	}
	slices.SortStableFunc(out, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return out, nil
}

// facts returns the facts that plans are built from.
func (c *Config) facts(node, zone string, a addresses) plan.Facts {
	scheduler, _ := plan.ParseScheduler(c.Scheduler) // Validate has checked it
	return plan.Facts{
		Node: node, Zone: zone, NodePorts: a.nodePorts,
		Scheduler: scheduler, Drain: c.DrainTimeout, MasqueradeAll: c.MasqueradeAll,
	}
}

package addresses

import (
	"net/netip"
	"slices"

	"portolan.dev/nodeagent/plan"
)

// Rules say which addresses have which roles.
type Rules struct {
	// Node are the node's addresses, the main one first. Empty: the addresses of its interfaces.
	Node []netip.Addr
	// NodePorts are the ranges of the addresses that serve node ports. Empty: all addresses of the
	// node, and its loopback addresses.
	NodePorts []netip.Prefix
	// Pods are the ranges of the addresses of pods on all nodes.
	Pods []netip.Prefix
}

// Roles are the node's addresses by role.
type Roles struct {
	Node      []netip.Addr // addresses in the Node's status, the main one first
	NodePorts []netip.Addr // sorted
	Sources   plan.Sources // internal sources
}

// loopback are the ranges of the node's own loopback traffic.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// Assign assigns roles to the node's addresses. The parameter local holds the addresses of the
// interfaces.
func (r *Rules) Assign(local []netip.Addr) Roles {
	node := r.node(local)
	all := slices.Concat(node, local)
	roles := Roles{Node: node, NodePorts: r.nodePorts(all), Sources: r.sources(all)}
	if len(roles.Node) == 0 {
		roles.Node = roles.NodePorts // a machine without a network has loopback addresses only
	}
	return roles
}

// node returns the addresses in the Node's status.
func (r *Rules) node(local []netip.Addr) []netip.Addr {
	if len(r.Node) > 0 {
		return slices.Clone(r.Node)
	}
	var out []netip.Addr
	for _, addr := range local {
		if addr.IsGlobalUnicast() {
			out = append(out, addr)
		}
	}
	return out
}

// nodePorts returns the addresses that serve node ports.
func (r *Rules) nodePorts(all []netip.Addr) []netip.Addr {
	var out []netip.Addr
	switch {
	case len(r.NodePorts) > 0:
		out = slices.DeleteFunc(slices.Clone(all), func(addr netip.Addr) bool {
			return !slices.ContainsFunc(r.NodePorts, func(p netip.Prefix) bool { return p.Contains(addr) })
		})
	case slices.ContainsFunc(r.Node, netip.Addr.IsLoopback):
		out = slices.Clone(r.Node) // other agents of the machine have other loopback addresses
	case len(r.Node) > 0:
		out = slices.Clone(r.Node)
		for _, addr := range all {
			if addr.IsLoopback() {
				out = append(out, addr)
			}
		}
	default:
		out = slices.DeleteFunc(slices.Clone(all), netip.Addr.IsLinkLocalUnicast)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// sources returns the internal sources.
func (r *Rules) sources(all []netip.Addr) plan.Sources {
	s := plan.Sources{Pods: slices.Clone(r.Pods), Node: slices.Clone(loopback)}
	for _, addr := range all {
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

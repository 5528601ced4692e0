package nftables

import (
	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// Backends implements kernel.Balancer. It reads the connections of all servers from connection
// tracking at once.
func (b *balancer) Backends(ids ...kernel.ID) (map[plan.Frontend][]kernel.Backend, error) {
	out := make(map[plan.Frontend][]kernel.Backend, len(ids))
	// The key of the inner map is whether the server is for external clients.
	index := map[host.Flow]map[bool]*kernel.Backend{}
	for _, id := range ids {
		s := b.tableOf(id.For).servers[keyOf(id)]
		if s == nil {
			continue
		}
		list := s.toKernel().Backends
		out[id.Frontend] = list
		for i := range list {
			f := host.Flow{Frontend: id.For.Addr, Protocol: uint8(id.For.Protocol), Backend: list[i].Addr}
			if index[f] == nil {
				index[f] = map[bool]*kernel.Backend{}
			}
			index[f][keyOf(id).outside] = &list[i]
		}
	}
	err := b.flows.Each(func(t host.Tracked) {
		either := index[t.Flow]
		if either == nil {
			return
		}
		outside := !b.sources.IsInternal(t.Client) && t.Client != t.Frontend.Addr()
		it := either[outside]
		if it == nil { // the connection was opened under another traffic policy
			it = either[!outside]
		}
		if t.Open {
			it.Connections++
		} else {
			it.Closing++
		}
		if t.Unanswered {
			it.Unanswered++
		}
	})
	return out, err
}

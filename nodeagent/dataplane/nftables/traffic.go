package nftables

import (
	"errors"
	"os"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/plan"
)

// Traffic implements kernel.Balancer. Only new connections are counted, because connection tracking
// handles all later packets. The counter of a server that moves to another class starts again at
// zero.
func (b *balancer) Traffic(ids []kernel.ID) (map[plan.Frontend]kernelmode.Traffic, error) {
	counted := map[key]uint64{}
	for _, t := range b.tables {
		for _, outside := range []bool{false, true} {
			err := b.conn.Elements(t.setsOf(outside).servers, func(m netfilter.Member) {
				if at, err := t.frontendOf(m.Key); err == nil && m.Counts {
					counted[key{at, outside}] = m.Packets
				}
			})
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
	}
	out := make(map[plan.Frontend]kernelmode.Traffic, len(ids))
	for _, id := range ids {
		if n, ok := counted[keyOf(id)]; ok {
			out[id.Frontend] = kernelmode.Traffic{Connections: n}
		}
	}
	return out, nil
}

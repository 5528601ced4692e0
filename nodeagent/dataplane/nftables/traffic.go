package nftables

import (
	"errors"
	"os"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// Traffic implements kernel.Balancer. Connections are counted, and nothing else:
// the packets that follow are connection tracking's. A server that comes into
// another class begins at zero.
func (b *balancer) Traffic(ids []kernel.ID) (map[plan.Frontend]kernel.Traffic, error) {
	counted := map[key]uint64{}
	for _, t := range b.tables {
		for _, outside := range []bool{false, true} {
			err := b.conn.Elements(t.setsOf(outside).servers, func(m kernel.Member) {
				if at, err := t.frontendOf(m.Key); err == nil && m.Counts {
					counted[key{at, outside}] = m.Packets
				}
			})
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
	}
	out := make(map[plan.Frontend]kernel.Traffic, len(ids))
	for _, id := range ids {
		if n, ok := counted[keyOf(id)]; ok {
			out[id.Frontend] = kernel.Traffic{Connections: n}
		}
	}
	return out, nil
}

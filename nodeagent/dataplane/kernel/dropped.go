package kernel

import (
	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/plan"
)

// Drop is the number of packets of a service port that the packet filter dropped at a frontend.
type Drop struct {
	packetfilter.Drop
	Service  plan.ServiceName
	PortName string
}

// Drops reads the numbers of dropped packets from the kernel. Frontends without dropped packets are
// left out. The result is empty if the kernel cannot count.
func (p *Plane) Drops() ([]Drop, error) {
	found, err := packetfilter.ReadDrops(p.opts.Namespace)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var known []Drop
	for _, d := range found {
		if v := p.ownerOf(d.Frontend); v != nil {
			known = append(known, Drop{d, v.Service, v.PortName})
		}
	}
	return known, nil
}

// ownerOf returns a virtual server of a frontend, or nil.
func (p *Plane) ownerOf(at plan.Frontend) *plan.VirtualServer {
	f := p.fronts[at]
	if f == nil {
		return nil
	}
	for _, v := range f.servers {
		if v != nil {
			return v
		}
	}
	return nil
}

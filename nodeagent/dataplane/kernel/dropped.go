package kernel

import (
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/plan"
)

// Drops reads the numbers of dropped packets from the kernel. Frontends without dropped packets are
// left out. The result is empty if the kernel cannot count.
func (p *Plane) Drops() ([]kernelmode.Drop, error) {
	found, err := packetfilter.ReadDrops(p.opts.Namespace)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var known []kernelmode.Drop
	for _, d := range found {
		if v := p.ownerOf(d.Frontend); v != nil {
			known = append(known, kernelmode.Drop{
				Frontend: d.Frontend, Set: string(d.Set), Reason: d.Reason, Packets: d.Packets, Service: v.Service, PortName: v.PortName,
			})
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

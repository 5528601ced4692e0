package kernel

import (
	"portolan.dev/nodeagent/dataplane/kernelmode"
)

// Traffic reads the counters of all servers from the kernel. Changes continue during the read. A
// server that was added anew begins at zero. Servers on loopback addresses are not counted.
func (p *Plane) Traffic() ([]kernelmode.Counted, error) {
	p.auditing.Lock() // only one reader at a time
	defer p.auditing.Unlock()
	ids, out := p.counted()
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := p.balancer.Traffic(ids)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		out[i].Traffic = found[id.Frontend]
	}
	return out, nil
}

// counted returns the servers that services have now.
func (p *Plane) counted() (ids []ID, out []kernelmode.Counted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil
	}
	ids, out = make([]ID, 0, len(p.services)), make([]kernelmode.Counted, 0, len(p.services))
	for at, s := range p.services {
		f := p.fronts[s.id.For]
		if f == nil || s.Closed { // its clients are counted at another server
			continue
		}
		if v := f.wantedAt(s.id); v != nil {
			ids = append(ids, s.id)
			out = append(out, kernelmode.Counted{Server: at, Service: v.Service, PortName: v.PortName})
		}
	}
	return ids, out
}
